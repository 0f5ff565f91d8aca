"""How Triton spells each scalar function: one row for each row of `dynacomp.lowering.kernel_ir.scalars`.

A row maps a kind of dtype (of the first argument, for `select` of the second: b bool, i signed,
u unsigned, f float, d float64 and s int16 where they differ) to text with the arguments at {0}, {1}, {2}. Also known:
{t} the register dtype, {u} and {s} the unsigned and signed integer of its width, {bits} that width, {ones}
the integer with all bits set.

float16 and bfloat16 live in registers as float32 that are exactly representable in them: loads widen,
and every Apply rounds its result, as eager JAX does after each operation.

    >>> spell("max", np.dtype("float32"), np.dtype("float32"), ("x", "y"))
    'tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)'
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacomp.lowering.kernel_ir.scalars import is_half, kind

_NAN_ALL = "propagate_nan=tl.PropagateNan.ALL"


def _call(name: str) -> str:
    return f"libdevice.{name}({{0}})"


SPELLINGS: dict[str, dict[str, str]] = {
    "add": {"iuf": "({0} + {1})"},
    "sub": {"iuf": "({0} - {1})"},
    "mul": {"iuf": "({0} * {1})"},
    "div": {
        "d": "({0} / {1})",
        "f": "tl.div_rn({0}, {1})",
        "i": "lib.div_signed({0}, {1})",
        "u": "lib.div_unsigned({0}, {1}, {ones})",
    },
    "rem": {
        "f": "lib.rem_float({0}, {1})",
        "i": "lib.rem_signed({0}, {1})",
        "u": "lib.rem_unsigned({0}, {1})",
    },
    "neg": {"if": "(-{0})", "u": "(tl.full([], 0, {t}) - {0})"},
    "abs": {"s": "lib.abs_short({0})", "if": "tl.abs({0})", "u": "{0}"},
    "sign": {"f": "lib.sign_float({0})", "i": "lib.sign_signed({0})", "u": "({0} > 0).to({t})"},
    "max": {"f": f"tl.maximum({{0}}, {{1}}, {_NAN_ALL})", "iu": "tl.maximum({0}, {1})", "b": "({0} | {1})"},
    "min": {"f": f"tl.minimum({{0}}, {{1}}, {_NAN_ALL})", "iu": "tl.minimum({0}, {1})", "b": "({0} & {1})"},
    "nextafter": {"f": "libdevice.nextafter({0}, {1})"},
    "floor": {"f": "tl.floor({0})"},
    "ceil": {"f": "tl.ceil({0})"},
    "round_even": {"d": "lib.round_even({0}, 4503599627370496.0)", "f": "lib.round_even({0}, 8388608.0)"},
    "round_away": {"f": _call("round")},
    "is_finite": {"f": "lib.is_finite({0})"},
    "eq": {"biuf": "({0} == {1})"},
    "ne": {"biuf": "({0} != {1})"},
    "lt": {"iuf": "({0} < {1})", "b": "(({0} == 0) & {1})"},
    "le": {"iuf": "({0} <= {1})", "b": "(({0} == 0) | {1})"},
    "gt": {"iuf": "({0} > {1})", "b": "({0} & ({1} == 0))"},
    "ge": {"iuf": "({0} >= {1})", "b": "({0} | ({1} == 0))"},
    "select": {"biuf": "tl.where({0}, {1}, {2})"},
    "and": {"biu": "({0} & {1})"},
    "or": {"biu": "({0} | {1})"},
    "xor": {"biu": "({0} ^ {1})"},
    "not": {"iu": "(~{0})", "b": "({0} == 0)"},
    "shift_left": {"iu": "lib.shift_left({0}, {1}, {bits})"},
    "shift_right_logical": {"iu": "lib.shift_right_logical({0}, {1}, {bits}, {u})"},
    "shift_right_arithmetic": {
        "i": "lib.shift_right({0}, {1}, {bits})",
        "u": "lib.shift_right_sign({0}, {1}, {bits}, {s})",
    },
    "population_count": {"iu": "lib.population_count({0}, {u})"},
    "clz": {"iu": "lib.clz({0}, {bits}, {u})"},
    "sqrt": {"d": "tl.sqrt({0})", "f": "tl.sqrt_rn({0})"},
    "rsqrt": {"f": _call("rsqrt")},
    "cbrt": {"f": "lib.cbrt({0})"},
    "pow": {"f": "libdevice.pow({0}, {1})"},
    "exp": {"f": _call("exp")},
    "exp2": {"f": _call("exp2")},
    "expm1": {"f": _call("expm1")},
    "log": {"f": _call("log")},
    "log1p": {"f": _call("log1p")},
    "logistic": {"f": "lib.logistic({0})"},
    "sin": {"f": _call("sin")},
    "cos": {"f": _call("cos")},
    "tan": {"f": _call("tan")},
    "asin": {"f": _call("asin")},
    "acos": {"f": _call("acos")},
    "atan": {"f": _call("atan")},
    "atan2": {"f": "libdevice.atan2({0}, {1})"},
    "sinh": {"f": _call("sinh")},
    "cosh": {"f": _call("cosh")},
    "tanh": {"f": _call("tanh")},
    "asinh": {"f": _call("asinh")},
    "acosh": {"f": _call("acosh")},
    "atanh": {"f": _call("atanh")},
    "erf": {"f": _call("erf")},
    "erfc": {"f": _call("erfc")},
    "erf_inv": {"f": "lib.erf_inv({0})"},
    "lgamma": {"f": _call("lgamma")},
    "digamma": {"f": "lib.digamma({0})"},
}


def triton_type(dtype: np.dtype) -> str:
    """How Triton names a NumPy dtype in memory; KeyError for one that it cannot hold."""
    return "tl.int1" if dtype == np.bool_ else f"tl.{np.dtype(dtype).name}"


def register(dtype: np.dtype) -> np.dtype:
    """The dtype that values of `dtype` have in registers."""
    return np.dtype(np.float32) if is_half(dtype) else np.dtype(dtype)


def rounded(text: str, dtype: np.dtype) -> str:
    """`text`, a register value, rounded to `dtype` where that is a half."""
    return f"({text}).to({triton_type(dtype)}).to(tl.float32)" if is_half(dtype) else text


def spell(name: str, source: np.dtype, dtype: np.dtype, args: tuple[str, ...]) -> str:
    """Triton text of `Apply(name, args, dtype)`; `source` is the dtype that the row goes by.

    Raises KeyError for a function or a kind of dtype that has no spelling.
    """
    if name == "convert":
        return convert(args[0], source, dtype)
    if name == "bitcast":
        return bitcast(args[0], source, dtype)
    letters = {"float64": "df", "int16": "si"}.get(source.name) or kind(source)
    row = next((text for kinds, text in SPELLINGS[name].items() if set(kinds) & set(letters)), None)
    if row is None:
        raise KeyError(f"Triton has no spelling of {name!r} for {source}")
    return rounded(row.format(*args, **_words(register(source))), dtype)


def _words(dtype: np.dtype) -> dict[str, Any]:
    bits = 8 * dtype.itemsize
    return {
        "t": triton_type(dtype),
        "u": f"tl.uint{bits}",
        "s": f"tl.int{bits}",
        "bits": bits,
        "ones": (1 << bits) - 1,
    }


def convert(text: str, source: np.dtype, dtype: np.dtype) -> str:
    """A conversion by XLA's rules: to bool is `!= 0`, float to integer saturates."""
    if source == dtype:
        return text
    target = triton_type(register(dtype))
    if dtype == np.bool_:
        return f"({text} != 0)"
    if kind(source) == "f" and kind(dtype) in "iu":
        return _saturate(text, np.iinfo(dtype), target, kind(dtype))
    wide = f"({text}).to({target})" if register(source) != register(dtype) else text
    return rounded(wide, dtype)


def _saturate(text: str, limits: Any, target: str, to: str) -> str:
    if to == "u":
        return f"lib.to_unsigned({text}, {target}, {limits.max}, {float(limits.max + 1)})"
    return f"lib.to_int({text}, {target}, {limits.min}, {limits.max}, {float(limits.max + 1)})"


def bitcast(text: str, source: np.dtype, dtype: np.dtype) -> str:
    """The same bits under another dtype of the same width."""
    stored = f"({text}).to({triton_type(source)})" if is_half(source) else text
    cast = f"({stored}).to({triton_type(dtype)}, bitcast=True)"
    return f"{cast}.to(tl.float32)" if is_half(dtype) else cast


def number(value: Any, dtype: np.dtype) -> str:
    """The digits of a constant of `dtype`; NaN and the infinities by name."""
    if kind(dtype) != "f":
        return str(int(value))
    exact = float(np.asarray(value, dtype).astype(np.float64))
    return repr(exact) if np.isfinite(exact) else f'float("{exact}")'


def literal(value: Any, dtype: np.dtype) -> str:
    """A constant in a register."""
    return f"tl.full([], {number(value, dtype)}, {triton_type(register(dtype))})"
