"""`codegen.triton.lib`: the device functions, run in Triton's interpreter, against what Python says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.interpret import interpret
from dynacomp.codegen.triton.modules import interpreted_functions
from dynacomp.codegen.triton.source import HEADER

INTS = np.array([[7, -7, 7, -7, 0, 5, -2147483648, -1], [2, 2, 3, 3, 4, 5, 3, 7]], np.int32)
EDGES = np.array([[7, -7, 0, -2147483648, 5, -2147483648, 9, -9], [0, 0, 0, -1, -1, 0, 4, 4]], np.int32)
SHIFTS = np.array([[1, -8, 5, -5, 1, -1, 3, 3], [3, 1, 32, 32, 31, -1, 0, 40]], np.int32)
BITS = np.array([[0, 1, -1, 2, 255, -2147483648, 7, 65536]], np.int32)
FLOATS = np.array([[0.5, 1.5, 2.5, -0.5, -2.5, 3.0, 0.0, 8388609.0]], np.float32)
WILD = np.array([[math.nan, math.inf, -math.inf, 3e9, -3e9, 2.9, -2.9, 0.0]], np.float32)
FIRST = np.array([[1, 2, math.nan, 1, math.nan, 3, 0, 5], [2, 1, 1, 1, math.nan, math.nan, 0, 4]], np.float32)


def run(expression: str, operands: np.ndarray, dtype: type) -> list:
    """`expression` of x and y, the rows of `operands`."""
    source = HEADER + f"""
@triton.jit
def apply(x_ptr, y_ptr, out_ptr, R: tl.constexpr):
    at = tl.arange(0, R)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, ({expression}).to(out_ptr.dtype.element_ty))
"""
    out = np.zeros(operands.shape[1], dtype)
    rows = [np.ascontiguousarray(r) for r in operands[[0, -1]]]
    interpret(interpreted_functions(source)["apply"], 1, [*rows, out], [], R=8)
    return out.tolist()


@pytest.mark.parametrize(("expression", "operands", "dtype", "want"), [
    ("lib.floordiv(x, y)", INTS, np.int32, lambda x, y: x // y),
    ("lib.floormod(x, y)", INTS, np.int32, lambda x, y: x % y),
    ("lib.div_signed(x, y)", EDGES, np.int32,
     lambda x, y: -1 if y == 0 else x if (x, y) == (-2147483648, -1) else int(x / y)),
    ("lib.rem_signed(x, y)", EDGES, np.int32, lambda x, y: x if y == 0 else int(math.fmod(x, y))),
    ("lib.shift_left(x, y, 32)", SHIFTS, np.int32,
     lambda x, y: ((x << y) + 2 ** 31) % 2 ** 32 - 2 ** 31 if 0 <= y < 32 else 0),
    ("lib.shift_right(x, y, 32)", SHIFTS, np.int32, lambda x, y: x >> (y if 0 <= y < 32 else 31)),
    ("lib.shift_right_logical(x, y, 32, tl.uint32)", SHIFTS, np.uint32,
     lambda x, y: (x & 0xffffffff) >> y if 0 <= y < 32 else 0),
    ("lib.population_count(x, tl.uint32)", BITS, np.int32, lambda x, _: (x & 0xffffffff).bit_count()),
    ("lib.clz(x, 32, tl.uint32)", BITS, np.int32, lambda x, _: 32 - (x & 0xffffffff).bit_length()),
    ("lib.sign_signed(x)", INTS, np.int32, lambda x, _: (x > 0) - (x < 0)),
    ("lib.round_even(x, 8388608.0)", FLOATS, np.float32, lambda x, _: float(round(x))),
    ("lib.is_finite(x)", WILD, np.int8, lambda x, _: int(math.isfinite(x))),
    ("lib.to_int(x, tl.int32, -2147483648, 2147483647, 2147483648.0)", WILD, np.int32,
     lambda x, _: 0 if math.isnan(x) else int(max(-2 ** 31, min(2 ** 31 - 1, x)))),
    ("lib.to_unsigned(x, tl.uint8, 255, 256.0)", WILD, np.uint8,
     lambda x, _: 0 if math.isnan(x) else int(max(0, min(255, x)))),
    ("lib.first_max(x, 0, y, 1)", FIRST, np.int8, lambda x, y: int(y > x or y != y and x == x)),
    ("lib.first_min(x, 1, y, 0)", FIRST, np.int8,
     lambda x, y: int(y < x or y == x or y != y)),
], ids=lambda v: v.split("(")[0] if isinstance(v, str) else "")
def test_as_python(expression, operands, dtype, want) -> None:
    pairs = zip(operands[0].tolist(), operands[-1].tolist())
    assert run(expression, operands, dtype) == [want(x, y) for x, y in pairs]


@pytest.mark.parametrize(("expression", "at", "want"), [
    ("lib.cbrt(x)", [-27.0, 8.0, 0.0, 1e-6], [-3.0, 2.0, 0.0, 1e-2]),
    ("lib.logistic(x)", [0.0, 200.0, -200.0, 1.0], [0.5, 1.0, 0.0, 1 / (1 + math.exp(-1))]),
    ("lib.erf_inv(x)", [0.0, math.erf(0.3), math.erf(-1.2), 1.0], [0.0, 0.3, -1.2, math.inf]),
    ("lib.digamma(x)", [1.0, 0.5, -0.5, 0.0],
     [-0.5772156649015329, -1.9635100260214235, 0.03648997397857652, math.nan]),
])
def test_functions_that_no_device_has(expression, at, want) -> None:
    found = run(expression, np.array([at + at], np.float64), np.float64)
    np.testing.assert_allclose(found, want + want, rtol=1e-12, atol=1e-80)
