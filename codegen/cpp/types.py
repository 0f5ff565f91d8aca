"""How dtypes, constants and folds are spelled in C++.

Memory holds the `storage` type; a register holds the `register` type (halves compute as float).

    >>> literal(float("-inf"), np.dtype("float32"))
    '-__builtin_inff()'
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
_STORAGE = {
    **{np.dtype(f"{s}int{b}"): f"{s}int{b}_t" for s in ("", "u") for b in (8, 16, 32, 64)},
    np.dtype(bool): "bool", np.dtype(np.float32): "float", np.dtype(np.float64): "double",
    BFLOAT16: "bf16", FLOAT16: "f16",
}
ROUND = {BFLOAT16: "round_bf16", FLOAT16: "round_f16"}

FOLD = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "bit_or", "all": "bit_and",
        "xor": "bit_xor", "argmax": "max", "argmin": "min"}


def storage(dtype: np.dtype) -> str:
    """The type of an element in memory; TypeError for a dtype that loops cannot hold."""
    try:
        return _STORAGE[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"the C++ backend has no type for dtype {dtype}; such values go to XLA") from None


def register(dtype: np.dtype) -> str:
    """The type of a value in a register."""
    return "float" if dtype in ROUND else storage(dtype)


def register_bytes(dtype: np.dtype) -> int:
    return 4 if dtype in ROUND else dtype.itemsize


def literal(value: Any, dtype: np.dtype) -> str:
    """A constant of `dtype` in a register, exact."""
    if dtype == bool:
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _integer(int(value), dtype)
    number = float(np.asarray(value).astype(dtype).astype(np.float64))
    suffix = "" if dtype.itemsize == 8 else "f"
    if math.isnan(number):
        return f"__builtin_nan{suffix}(\"\")"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    text = repr(number)  # the shortest text that reads back as this double, so exact for every float
    return f"{text if any(c in text for c in '.e') else text + '.0'}{suffix}"


def _integer(value: int, dtype: np.dtype) -> str:
    value = int(np.asarray(value).astype(dtype))
    if value == -(2**63):
        return "(-INT64_C(9223372036854775807) - 1)"
    wide = dtype.itemsize == 8
    text = f"{'U' if dtype.kind == 'u' else ''}INT64_C({value})" if wide else str(value)
    return text if wide else f"({storage(dtype)}){text}" if value >= 0 else f"({storage(dtype)})({text})"


def identity(fold: str, dtype: np.dtype) -> str:
    """The value that a fold starts from."""
    if fold in ("sum", "xor", "any"):
        return literal(0, dtype)
    if fold == "prod" or fold == "all" and dtype == bool:
        return literal(1, dtype)
    if fold == "all":
        return literal(np.invert(np.zeros((), dtype)), dtype)
    low = fold in ("max", "argmax")
    if dtype == bool:
        return literal(not low, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return literal(limits.min if low else limits.max, dtype)
    return literal(-math.inf if low else math.inf, dtype)
