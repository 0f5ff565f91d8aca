"""`codegen.triton.gpu`: a Schedule as one program for a GPU, lowered with none at hand, and run where there is one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.triton.gpu import _entry, attributes, gpu_program, missing
from dynacomp.codegen.triton.modules import jit_functions
from dynacomp.codegen.triton.source import HEADER
from dynacomp.codegen.triton.steps import plan
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

from .triton_kit import FUNCTIONS, wanted

SOURCE = f"""{HEADER}
@triton.jit
def move(x_ptr, out_ptr, n, R: tl.constexpr):
    at = tl.arange(0, R)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
"""


def test_a_program_says_what_it_is() -> None:
    fn, args = FUNCTIONS["softmax"]
    planned = plan(schedule(lower_function(fn, *args)), False)
    said = attributes(planned)
    assert said["backend"] == "triton" and said["kernels"] == planned.names and not said["externs"]
    assert all("@triton.jit" in text for text in said["source"].values())


def test_an_entry_takes_its_pointers_in_another_order() -> None:
    function = jit_functions(SOURCE)["move"]
    text = _entry(SOURCE, function, "move", ("x", "out"), ("out", "x"))
    entry = jit_functions(text)["move_entry"]
    assert entry.arg_names == ["out_ptr", "x_ptr", "n", "R"]
    assert text.endswith("    move(x_ptr, out_ptr, n, R)\n")


@pytest.mark.skipif(missing() is not None, reason="jaxlib has no GPU plugin")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lowers_to_one_gpu_program(name: str) -> None:
    fn, args = FUNCTIONS[name]
    graph = lower_function(fn, *args)
    planned = plan(schedule(graph), False)
    lowered = gpu_program(planned, (), False, target="sm_90").trace(*args).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("@triton_kernel_call_ffi") >= len(planned.names)


@pytest.mark.gpu
@pytest.mark.skipif(jax.default_backend() != "gpu", reason="no GPU")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_runs_on_the_gpu(name: str) -> None:
    fn, args = FUNCTIONS[name]
    graph = lower_function(fn, *args)
    program = BACKENDS["triton"].compile(graph, schedule(graph), {})
    for found, want in zip(program(*map(jnp.asarray, args)), wanted(name)):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
