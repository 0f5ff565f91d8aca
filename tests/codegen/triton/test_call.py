"""`codegen.triton.call`: what one launch needs, by rule: its grid, its blocks, the types that it computes in."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.call import index_type, launch_call, matmul_call, power
from dynacomp.codegen.triton.source import triton_launches
from dynacomp.lowering.kernel_ir.scalars import BFLOAT16

from .triton_kit import doubled


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
        matmul_call("", params, ("a", "b", "out"), (np.dtype(np.float32), np.dtype(np.int32), BFLOAT16), {})


def test_powers_of_two() -> None:
    assert [power(n) for n in (0, 1, 2, 3, 5, 1024, 1025)] == [1, 1, 2, 4, 8, 1024, 2048]


def test_offsets_of_large_buffers_take_64_bits() -> None:
    small, large = ((1 << 30,), np.dtype(np.int8)), ((1 << 16, 1 << 15), np.dtype(np.int8))
    assert index_type({"x": small}) == "tl.int32" and index_type({}) == "tl.int32"
    assert index_type({"x": small, "y": large}) == "tl.int64"


@pytest.mark.parametrize(("n", "rows", "grid"), [(1, 1, 1), (5, 8, 1), (3000, 1024, 3)])
def test_a_launch_at_a_size(n: int, rows: int, grid: int) -> None:
    kernel = doubled()
    [launch] = triton_launches(kernel)
    call = launch_call(launch, "", {kernel.sizes[0]: n})
    assert (call.constants["R"], call.constants["C"], call.grid) == (rows, 1, grid)
    assert call.scalars == {"n": n} and call.writes == {"out"} and not call.scratch
    assert call.buffers == {"x": ((n,), np.float32), "out": ((n,), np.float32)}
