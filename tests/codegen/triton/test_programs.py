"""Whole Triton Programs: products, block sizes, lowering for a GPU, and a GPU where there is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.triton.aot import gpu_target
from dynacomp.codegen.triton.call import matmul_call, power
from dynacomp.codegen.triton.gpu import gpu_program, missing
from dynacomp.codegen.triton.steps import plan
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.kernel_ir.scalars import BFLOAT16
from dynacomp.lowering.primitives.translate import lower_function

X, Y = np.linspace(-2, 2, 33 * 40, dtype=np.float32).reshape(33, 40), np.ones((40, 24), np.float32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (jax.nn.softmax, (X,)),
    "matmul": (lambda x, y: jax.nn.gelu(x @ y).sum(), (X, Y)),
    "scatter": (lambda x: x.at[jnp.array([1, 2, 1])].add(1.0), (X,)),
    "sort": (lambda x: jnp.sort(x * 2, 1), (X,)),
}


def wanted(name: str) -> list[Any]:
    fn, args = FUNCTIONS[name]
    return jax.tree.leaves(fn(*map(jnp.asarray, args)))


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


@pytest.mark.parametrize(
    ("dtypes", "cores"),
    [
        (("float32",) * 3, True),
        (("float16",) * 3, True),
        (("int8", "int8", "int32"), True),
        (("int32",) * 3, False),
        (("float64",) * 3, False),
    ],
)
def test_products_choose_tensor_cores(dtypes: tuple[str, ...], cores: bool) -> None:
    params = {"batch": 2, "m": 33, "n": 20, "k": 7, "a_strides": (231, 7, 1), "b_strides": (140, 20, 1)}
    call = matmul_call("", params, ("a", "b", "out"), tuple(map(np.dtype, dtypes)), {})
    assert call.constants["CORES"] is cores
    assert call.grid == 2 * -(-33 // call.constants["BM"]) * -(-20 // call.constants["BN"])


def test_products_of_unlike_kinds_are_refused() -> None:
    params = {"batch": 1, "m": 1, "n": 1, "k": 1, "a_strides": (1, 1, 1), "b_strides": (1, 1, 1)}
    with pytest.raises(ValueError, match="takes no product of float32 and int32"):
        matmul_call("", params, ("a", "b", "out"), (X.dtype, np.dtype(np.int32), BFLOAT16), {})


def test_powers_of_two() -> None:
    assert [power(n) for n in (0, 1, 2, 3, 5, 1024, 1025)] == [1, 1, 2, 4, 8, 1024, 2048]


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown GPU architecture 'z80'"):
        gpu_target("z80")


def test_without_triton_there_is_a_reason() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from dynacomp.codegen.backends import BACKENDS\n"
        "print(BACKENDS['triton'].unavailable())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "triton is not installed" in done.stdout, done.stderr


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
