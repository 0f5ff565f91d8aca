"""Operations that raise for some numbers only, on Python numbers that change from call to call.

`1 - beta ** t`, `lr / (1 + decay * epoch)`, `math.cos(math.pi * step / total)`: each row says within which
bounds of its operands an operation cannot raise, and always answers with the same type. Where this call's
numbers lie within them, the bounds become guards and the operation stays in Python (`sources.Host`); a later
call outside of them is captured anew. Where they do not, the graph breaks as before.

    >>> within(2, 3.5, POWERS)
    (0.0625, 16, -250, 250)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from dynacomp.capture.base.numpy_errors import ignoring
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import NeedsConcrete
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import Value, now

Bounds = tuple[float, float, float, float]  # the least and the greatest |base| and exponent

DIVISIONS = {op.__name__: op for op in (operator.truediv, operator.floordiv, operator.mod)}
SHIFTS = {op.__name__: op for op in (operator.lshift, operator.rshift)}
OF_NUMPY = {**dynamic_scalars.NEVER_RAISE, **DIVISIONS, "pow": operator.pow}
POWERS: tuple[Bounds, ...] = (  # the greatest results are 1e300, or 2**40 where they are ints
    (0, 1, 0, math.inf), (1 / 16, 16, -250, 250), (1e-60, 1e60, -5, 5))
ROOTS: tuple[Bounds, ...] = ((1, 1000, -100, -1),)  # of ints to negative ints, which are floats
INT_POWERS: tuple[Bounds, ...] = ((0, 1, 0, math.inf), (0, 2, 0, 40), (0, 16, 0, 10), (0, 10_000, 0, 3))


def binary(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`a op b` of two numbers of which one changes, under guards that it does not raise; None where it is
    another operation, or these numbers are not within the bounds of one row."""
    name = dynamic_scalars.plain_name(op)
    if not (_is_python(a) and _is_python(b)):
        return _of_numpy(cap, name, a, b) if dynamic_scalars.is_number(a) and dynamic_scalars.is_number(b) else None
    if name in DIVISIONS and is_scalar(b) and now(b) == 0:
        raise NeedsConcrete(b)  # of which Python's exception is found
    if name in DIVISIONS and is_scalar(b) and dynamic_scalars.moderate(a):
        return dynamic_scalars.host(name, DIVISIONS[name], a, b) if holds(cap, [("ne", b, 0)]) else None
    if name in SHIFTS:
        shifted = type(now(a)) is not float and holds(cap, [("ge", b, 0), ("le", b, 64), ("le", a, 1 << 60)])
        return dynamic_scalars.host(name, SHIFTS[name], a, b) if shifted else None
    bounds = _power(a, b) if name == "pow" else ()
    return dynamic_scalars.host("pow", operator.pow, a, b) if bounds and holds(cap, bounds) else None


def _of_numpy(cap: Capture, name: str, a: Value, b: Value) -> Value | None:
    """`a op b` where one of them is a scalar of NumPy's: the types say what the result's is, and NumPy warns where
    Python raises. But a Python int has to fit the scalar's type, and an int has no power of a negative int."""
    bounds = [*_fitting(a, b), *_fitting(b, a)]
    if name in DIVISIONS:
        bounds.append(("ne", b, 0))
    elif name == "pow" and not any(isinstance(now(v), (float, np.floating)) for v in (a, b)):
        bounds.append(("ge", b, 0))
    return dynamic_scalars.host(name, OF_NUMPY[name], a, b) if name in OF_NUMPY and holds(cap, bounds) else None


def _fitting(a: Value, b: Value) -> list[tuple[str, Value, float]]:
    """The bounds within which `b`, if it is a Python int that changes, fits the type of NumPy's scalar `a`."""
    scalar, most = now(a), dynamic_scalars.SMALL
    if not (dynamic_scalars.is_numpy_number(scalar) and is_scalar(b) and type(b.hint) is int):
        return []
    kind = np.iinfo(scalar.dtype) if scalar.dtype.kind in "iu" else None
    least, greatest = (max(-most, int(kind.min)), min(most, int(kind.max))) if kind else (-most, most)
    return [("ge", b, least), ("le", b, greatest)]


def _power(a: Value, b: Value) -> list[tuple[str, Value, float]]:
    """The bounds within which `a ** b` does not raise, overflow or become another type; [] where there are none."""
    base, exponent = now(a), now(b)
    whole = type(base) is not float and type(exponent) is not float
    found = within(base, exponent, (ROOTS if exponent < 0 else INT_POWERS) if whole else POWERS)
    if found is None:
        return []
    least, most, low, high = found
    signed = [("ge", a, 0)] if type(exponent) is float else []
    return [("le", a, most), ("ge", a, -most), ("ge", b, low), ("le", b, high), *signed, *_far(a, base, least)]


def _far(a: Value, base: float, least: float) -> list[tuple[str, Value, float]]:
    """The bound that keeps a base away from zero, on its side of it."""
    return [] if not least else [("ge", a, least)] if base > 0 else [("le", a, -least)]


def within(base: float, exponent: float, rows: Iterable[Bounds]) -> Bounds | None:
    """The first row whose bounds hold these numbers."""
    return next((r for r in rows if r[0] <= abs(base) <= r[1] and r[2] <= exponent <= r[3]), None)


def holds(cap: Capture, bounds: Iterable[tuple[str, Any, float]]) -> bool:
    """Whether numbers are within bounds; what changes is guarded to be."""
    # a bound may be beyond a small float of NumPy's
    if not all(ignoring(getattr(operator, name), now(v), bound) for name, v, bound in bounds):
        return False
    for name, v, bound in bounds:
        if is_scalar(v):
            asked = dynamic_scalars.host(name, getattr(operator, name), v, Const(_representable(v.hint, bound)))
            assert is_scalar(asked)
            dynamic_scalars.guarded(cap, asked)
    return True


def _representable(number: Any, bound: float) -> float:
    """The same bound for a float of NumPy's, which warns where it is compared with what is beyond its type."""
    if not isinstance(number, np.floating) or math.isinf(bound):
        return bound
    most = float(np.finfo(number.dtype).max)
    return min(max(bound, -most), most)


def _is_python(v: Value) -> bool:
    return type(now(v)) in (int, float, bool)
