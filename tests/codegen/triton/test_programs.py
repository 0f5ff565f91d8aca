"""Whole Triton Programs: products, block sizes, lowering for a GPU, and a GPU where there is one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.backends import BACKENDS
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

from .triton_kit import FUNCTIONS, wanted


@pytest.mark.parametrize("numerics", ["default", "exact"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_program(name: str, numerics: str) -> None:
    fn, args = FUNCTIONS[name]
    graph = lower_function(fn, *args)
    program = BACKENDS["triton"].compile(graph, schedule(graph), {"numerics": numerics})
    assert (
        program.backend == "triton" and "@triton.jit" in "".join(program.source.values()) or program.externs
    )
    for found, want in zip(program(*args), wanted(name)):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_without_triton_there_is_a_reason() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from dynacomp.codegen.backends import BACKENDS\n"
        "print(BACKENDS['triton'].unavailable())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "triton is not installed" in done.stdout, done.stderr
