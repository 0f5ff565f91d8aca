"""The scalar functions a Kernel may apply: one row each, with its NumPy reference.

Every `loops.Apply.fn` names a row of `SCALARS`; every backend spells every row once. A row says the
number of arguments, which kinds of dtype they have, how the result's dtype follows and what the
function costs (additions: fusion weighs recomputation with it). A row that has the name of a primitive of
JAX is its lowering, too (`OF_JAX`).

    rule "same"    all arguments and the result have one dtype
    rule "bool"    arguments have one dtype, the result is bool
    rule "select"  (bool, T, T) -> T: `select(c, x, y)` is x where c, else y
    rule "free"    one argument; `Apply.dtype` says the result (`convert`, `bitcast`)

Kinds: b bool, i signed, u unsigned, f float (float16, bfloat16, float32, float64). Complex, float8 and
4-bit values never reach loops. float16 and bfloat16 compute in float32 and round the result to
their dtype at every Apply, as eager JAX does after each operation.

Semantics are XLA's: integers wrap; division truncates, x/0 = -1 (all ones), x rem 0 = x, min/-1 =
min; a shift by the width or more gives 0 (arithmetic: the sign); `max`/`min` return NaN when either
is NaN; `sign` keeps NaN and -0.0; float to integer truncates and saturates, NaN becomes 0;
integer to narrower integer wraps; anything to bool is `!= 0`.

    >>> evaluate("div", (np.int32(7), np.int32(0)), np.dtype("int32"))
    array(-1, dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
CHEAP, MEDIUM, DEAR = 1, 5, 20


@dataclass(frozen=True)
class Scalar:
    """One scalar function. `wide`: the reference computes in float64, then rounds once."""

    name: str
    arity: int
    rule: str
    kinds: str
    cost: int
    reference: Callable[..., Any]
    wide: bool = False


def kind(dtype: Any) -> str:
    """'b', 'i', 'u', 'f', or '' for a dtype that loops cannot hold."""
    dtype = np.dtype(dtype)
    if dtype == BFLOAT16:
        return "f"
    return dtype.kind if dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8)) else ""


def is_half(dtype: np.dtype) -> bool:
    """True for the two floats that compute in float32."""
    return dtype in (BFLOAT16, FLOAT16)


def _div(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return x / y
    all_ones = np.invert(x.dtype.type(0))
    return np.where(y == 0, all_ones, _trunc_div(x, np.where(y == 0, x.dtype.type(1), y)))


def _trunc_div(x: Any, y: Any) -> Any:
    """Integer quotient towards zero; `min / -1` wraps to min as NumPy's does."""
    quotient = np.floor_divide(x, y)
    inexact = (np.multiply(quotient, y) != x) & ((x < 0) != (y < 0))
    return np.where(inexact, quotient + x.dtype.type(1), quotient)


def _rem(x: Any, y: Any) -> Any:
    one = x.dtype.type(1)
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, np.where(y == 0, one, y)))


def _bits(x: Any) -> int:
    return 8 * x.dtype.itemsize


def _unsigned(x: Any) -> Any:
    return np.asarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))


def _shift_left(x: Any, n: Any) -> Any:
    return np.where(_unsigned(n) >= _bits(x), x.dtype.type(0), np.left_shift(x, n % _bits(x)))


def _shift_right_logical(x: Any, n: Any) -> Any:
    amount = _unsigned(n)
    shifted = np.right_shift(_unsigned(x), amount % _bits(x)).view(x.dtype)
    return np.where(amount >= _bits(x), x.dtype.type(0), shifted)


def _shift_right_arithmetic(x: Any, n: Any) -> Any:
    signed = np.asarray(x).view(np.dtype(f"i{x.dtype.itemsize}"))
    amount = np.minimum(_unsigned(n), _bits(x) - 1).view(signed.dtype)
    return np.right_shift(signed, amount).view(x.dtype)


def _clz(x: Any) -> Any:
    bits, value = _bits(x), _unsigned(x).astype(np.uint64)
    found = sum((value >> np.uint64(b) != 0).astype(np.int64) for b in range(bits))
    return (bits - np.asarray(found)).astype(x.dtype)


def _sign(x: Any) -> Any:
    return np.where((x == 0) | np.isnan(x), x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def _round_away(x: Any) -> Any:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x)


def _not(x: Any) -> Any:
    return np.logical_not(x) if x.dtype == bool else np.invert(x)


def _logistic(x: Any) -> Any:
    return special.expit(x)


def _lgamma(x: Any) -> Any:
    return np.where(np.isinf(x), np.inf, special.gammaln(x))


def _digamma(x: Any) -> Any:
    return np.where((x <= 0) & (np.floor(x) == x), np.nan, special.digamma(x))


_F, _N, _I, _BI, _ALL = "f", "iuf", "iu", "biu", "biuf"


_SAME, _BOOL = "same", "bool"
_ROWS = (
    # arithmetic
    Scalar("add", 2, _SAME, _N, CHEAP, np.add),
    Scalar("sub", 2, _SAME, _N, CHEAP, np.subtract),
    Scalar("mul", 2, _SAME, _N, CHEAP, np.multiply),
    Scalar("div", 2, _SAME, _N, MEDIUM, _div),
    Scalar("rem", 2, _SAME, _N, MEDIUM, _rem),
    Scalar("neg", 1, _SAME, _N, CHEAP, np.negative),
    Scalar("abs", 1, _SAME, "if", CHEAP, np.abs),
    Scalar("sign", 1, _SAME, _N, CHEAP, _sign),
    Scalar("max", 2, _SAME, _ALL, CHEAP, np.maximum),
    Scalar("min", 2, _SAME, _ALL, CHEAP, np.minimum),
    Scalar("nextafter", 2, _SAME, _F, CHEAP, np.nextafter),
    # rounding
    Scalar("floor", 1, _SAME, _F, CHEAP, np.floor),
    Scalar("ceil", 1, _SAME, _F, CHEAP, np.ceil),
    Scalar("round_even", 1, _SAME, _F, CHEAP, np.rint),
    Scalar("round_away", 1, _SAME, _F, CHEAP, _round_away),
    Scalar("is_finite", 1, _BOOL, _F, CHEAP, np.isfinite),
    # comparison and choice (bool: False < True)
    Scalar("eq", 2, _BOOL, _ALL, CHEAP, np.equal),
    Scalar("ne", 2, _BOOL, _ALL, CHEAP, np.not_equal),
    Scalar("lt", 2, _BOOL, _ALL, CHEAP, np.less),
    Scalar("le", 2, _BOOL, _ALL, CHEAP, np.less_equal),
    Scalar("gt", 2, _BOOL, _ALL, CHEAP, np.greater),
    Scalar("ge", 2, _BOOL, _ALL, CHEAP, np.greater_equal),
    Scalar("select", 3, "select", _ALL, CHEAP, np.where),
    # bits (logical on bool)
    Scalar("and", 2, _SAME, _BI, CHEAP, np.bitwise_and),
    Scalar("or", 2, _SAME, _BI, CHEAP, np.bitwise_or),
    Scalar("xor", 2, _SAME, _BI, CHEAP, np.bitwise_xor),
    Scalar("not", 1, _SAME, _BI, CHEAP, _not),
    Scalar("shift_left", 2, _SAME, _I, CHEAP, _shift_left),
    Scalar("shift_right_logical", 2, _SAME, _I, CHEAP, _shift_right_logical),
    Scalar("shift_right_arithmetic", 2, _SAME, _I, CHEAP, _shift_right_arithmetic),
    Scalar("population_count", 1, _SAME, _I, CHEAP, lambda x: np.bitwise_count(_unsigned(x))),
    Scalar("clz", 1, _SAME, _I, CHEAP, _clz),
    # dtypes (`bitcast` keeps the width)
    Scalar("convert", 1, "free", _ALL, CHEAP, lambda x: x),
    Scalar("bitcast", 1, "free", _ALL, CHEAP, lambda x: x),
    # roots and powers
    Scalar("sqrt", 1, _SAME, _F, MEDIUM, np.sqrt),
    Scalar("rsqrt", 1, _SAME, _F, MEDIUM, lambda x: 1 / np.sqrt(x), wide=True),
    Scalar("cbrt", 1, _SAME, _F, DEAR, np.cbrt, wide=True),
    Scalar("pow", 2, _SAME, _F, DEAR, np.power, wide=True),
    # exponentials and logarithms
    Scalar("exp", 1, _SAME, _F, DEAR, np.exp, wide=True),
    Scalar("exp2", 1, _SAME, _F, DEAR, np.exp2, wide=True),
    Scalar("expm1", 1, _SAME, _F, DEAR, np.expm1, wide=True),
    Scalar("log", 1, _SAME, _F, DEAR, np.log, wide=True),
    Scalar("log1p", 1, _SAME, _F, DEAR, np.log1p, wide=True),
    Scalar("logistic", 1, _SAME, _F, DEAR, _logistic, wide=True),
    # trigonometry
    Scalar("sin", 1, _SAME, _F, DEAR, np.sin, wide=True),
    Scalar("cos", 1, _SAME, _F, DEAR, np.cos, wide=True),
    Scalar("tan", 1, _SAME, _F, DEAR, np.tan, wide=True),
    Scalar("asin", 1, _SAME, _F, DEAR, np.arcsin, wide=True),
    Scalar("acos", 1, _SAME, _F, DEAR, np.arccos, wide=True),
    Scalar("atan", 1, _SAME, _F, DEAR, np.arctan, wide=True),
    Scalar("atan2", 2, _SAME, _F, DEAR, np.arctan2, wide=True),
    Scalar("sinh", 1, _SAME, _F, DEAR, np.sinh, wide=True),
    Scalar("cosh", 1, _SAME, _F, DEAR, np.cosh, wide=True),
    Scalar("tanh", 1, _SAME, _F, DEAR, np.tanh, wide=True),
    Scalar("asinh", 1, _SAME, _F, DEAR, np.arcsinh, wide=True),
    Scalar("acosh", 1, _SAME, _F, DEAR, np.arccosh, wide=True),
    Scalar("atanh", 1, _SAME, _F, DEAR, np.arctanh, wide=True),
    # special functions
    Scalar("erf", 1, _SAME, _F, DEAR, special.erf, wide=True),
    Scalar("erfc", 1, _SAME, _F, DEAR, special.erfc, wide=True),
    Scalar("erf_inv", 1, _SAME, _F, DEAR, special.erfinv, wide=True),
    Scalar("lgamma", 1, _SAME, _F, DEAR, _lgamma, wide=True),
    Scalar("digamma", 1, _SAME, _F, DEAR, _digamma, wide=True),
)

SCALARS: dict[str, Scalar] = {row.name: row for row in _ROWS}
_KERNELS_ONLY = frozenset({"convert", "bitcast", "select", "round_even", "round_away"})
OF_JAX = tuple(name for name in SCALARS if name not in _KERNELS_ONLY)  # primitives of JAX by the same name


def convert(x: Any, dtype: np.dtype) -> np.ndarray:
    """`x` in another dtype, by XLA's rules (see the module's docstring)."""
    x = np.asarray(x)
    if x.dtype == dtype:
        return x
    if dtype == np.bool_:
        return x != np.zeros((), x.dtype)
    if kind(x.dtype) == "f" and kind(dtype) in "iu":
        return _saturate(x.astype(np.float64), dtype)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def _saturate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    inside = (x >= float(limits.min)) & (x < float(limits.max) + (1 if dtype.itemsize < 8 else 0))
    whole = np.where(inside, np.trunc(x), 0).astype(dtype)
    clipped = np.where(x > 0, np.asarray(limits.max, dtype), np.asarray(limits.min, dtype))
    return np.where(inside, whole, np.where(np.isnan(x), np.zeros((), dtype), clipped))


def evaluate(name: str, args: tuple[Any, ...], dtype: np.dtype) -> np.ndarray:
    """The reference value of `Apply(name, args, dtype)` on NumPy arrays (they broadcast).

    Raises KeyError for a function that is not in the table.
    """
    row = SCALARS[name]
    arrays = [np.asarray(a) for a in args]
    if name == "convert":
        return convert(arrays[0], dtype)
    if name == "bitcast":
        return arrays[0].view(dtype) if arrays[0].ndim else arrays[0].reshape(1).view(dtype)[0]
    if row.rule != "select" and name != "nextafter":
        arrays = [_widen(a, row.wide) for a in arrays]
    with np.errstate(all="ignore"):
        value = np.asarray(row.reference(*arrays))
        return value if value.dtype == dtype else value.astype(dtype)


def _widen(x: np.ndarray, wide: bool) -> np.ndarray:
    if kind(x.dtype) != "f":
        return x
    if wide:
        return x.astype(np.float64)
    return x.astype(np.float32) if is_half(x.dtype) else x
