"""`codegen.triton.dot`: the product kernel, over tiles that do not fit, strides of any order, and every accumulator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton import dot
from dynacomp.codegen.triton.call import matmul_call, source_of
from dynacomp.codegen.triton.host import host_engine
from dynacomp.lowering.kernel_ir.scalars import BFLOAT16

BATCH, M, N, K = 2, 19, 33, 21


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtypes", [
    ("float32", "float32", "float32"), ("int32", "int32", "int32"), ("int8", "int8", "int32"),
    (BFLOAT16, BFLOAT16, "float32"), ("float64", "float32", "float64")], ids=str)
def test_a_product_of_batches(dtypes: tuple, transposed: bool) -> None:
    kinds = tuple(map(np.dtype, dtypes))
    rng = np.random.default_rng(3)
    a = rng.integers(-9, 9, (BATCH, M, K)).astype(kinds[0])
    b = rng.integers(-9, 9, (BATCH, K, N)).astype(kinds[1])
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(kinds[2])
    a_strides = (M * K, 1, M) if transposed else (M * K, K, 1)
    held = np.ascontiguousarray(a.swapaxes(1, 2) if transposed else a)
    params = {"batch": BATCH, "m": M, "n": N, "k": K, "a_strides": a_strides, "b_strides": (K * N, N, 1)}
    call = matmul_call(source_of(dot), params, ("a", "b", "out"), kinds, {})
    found = host_engine(call, {"a": held.reshape(-1), "b": b.reshape(-1)})["out"]
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
