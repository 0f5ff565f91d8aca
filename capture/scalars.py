"""Python numbers that change from call to call: arithmetic on them stays in Python.

A `ScalarV` enters the Graph as a weakly typed 0-d array when JAX consumes it. Python's own
arithmetic on it is exact (64 bits and more), so it is done in Python, by the replacement code,
before the program runs (`sources.Host`). Only operations that cannot raise are moved there; others
break the graph, and code that needs the number as a constant fixes it (`NeedsConcrete`).
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture import sources as S
from dynacomp.capture.errors import Break
from dynacomp.capture.values import Const, NeedsConcrete, ScalarV, Value

NEVER_RAISE = {op.__name__: op for op in (
    operator.add, operator.sub, operator.mul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    operator.ne)}
NONZERO_RIGHT = {op.__name__: op for op in (operator.truediv, operator.floordiv, operator.mod)}
UNARY = {op.__name__: op for op in (operator.neg, operator.pos, operator.abs)}
SMALL = 1 << 40  # ints beyond this, and floats made of them, are not moved


FUNCTIONS: dict[str, Any] = {**NEVER_RAISE, **NONZERO_RIGHT, **UNARY, "len": len}


def binary(op: Any, a: Value, b: Value) -> Value | None:
    """`a op b` for numbers of which one changes; None when the other is no number."""
    name = op.__name__
    plain = name[1:] if name.startswith("i") and name[1:] in {**NEVER_RAISE, **NONZERO_RIGHT} else name
    if _is_text(a) and _is_text(b) and plain in ("add", "eq", "ne"):
        return _host(plain, NEVER_RAISE[plain], a, b)
    if not (_is_number(a) and _is_number(b)):
        return None
    if plain in NEVER_RAISE and _moderate(a) and _moderate(b):
        return _host(plain, NEVER_RAISE[plain], a, b)
    if plain in NONZERO_RIGHT and isinstance(b, Const) and b.value != 0 and _moderate(a):
        return _host(plain, NONZERO_RIGHT[plain], a, b)
    raise Break("scalar", f"{name} of Python numbers that change from call to call")


def unary(op: Any, value: ScalarV) -> Value:
    if op.__name__ not in UNARY:
        raise Break("scalar", f"{op.__name__} of a Python number that changes from call to call")
    return _host(op.__name__, op, value)


def _host(name: str, op: Any, *values: Any) -> Value:
    hint = op(*(v.hint if isinstance(v, ScalarV) else v.value for v in values))
    args = tuple(v.source if isinstance(v, ScalarV) else v.value for v in values)
    return ScalarV(hint, source=S.Host(name, args))


def length(value: ScalarV) -> Value:
    """`len` of a changing string."""
    if type(value.hint) is not str:
        raise NeedsConcrete(value)
    return _host("len", len, value)


def _is_text(v: Value) -> bool:
    found = v.hint if isinstance(v, ScalarV) else v.value if isinstance(v, Const) else None
    return type(found) is str


def _is_number(v: Value) -> bool:
    found = v.hint if isinstance(v, ScalarV) else v.value if isinstance(v, Const) else None
    return type(found) in (int, float, bool)


def _moderate(v: Any) -> bool:
    """Whether int-to-float conversions of such a number cannot overflow."""
    value = v.hint if isinstance(v, ScalarV) else v.value
    return isinstance(value, float) or abs(value) < SMALL
