"""Ranges with an end that is a size: how many elements they have, and which, are numbers made of their ends.

    len(range(a, n, 2))     # (n - a + 1) // 2, where the guards say that a < n
    range(n)[-1]            # n - 1

Which side of the other an end lies on is guarded. A step that changes breaks the graph.
"""

from __future__ import annotations

import operator

from dynacomp.capture.arithmetic.indices import index_value
from dynacomp.capture.arithmetic.operators import binary, truth
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, is_const, is_exactly
from dynacomp.capture.values.containers import RangeV
from dynacomp.capture.values.questions import is_size
from dynacomp.capture.values.value import Value

ZERO = Const(0)


def _step(v: RangeV) -> int:
    if not is_const(v.step):
        raise Break("operator", "a range whose step changes")
    return v.step.value  # type: ignore[no-any-return]


def _holds(cap: Capture, op: object, a: Value, b: Value) -> bool:
    return truth(cap, binary(cap, op, a, b))


def length(cap: Capture, v: RangeV) -> Value:
    """`len(v)`."""
    step = _step(v)
    gap = binary(cap, operator.sub, *((v.stop, v.start) if step > 0 else (v.start, v.stop)))
    if not _holds(cap, operator.gt, gap, ZERO):
        return ZERO
    if abs(step) == 1:
        return gap
    return binary(cap, operator.floordiv, binary(cap, operator.add, gap, Const(abs(step) - 1)), Const(abs(step)))


def item(cap: Capture, v: RangeV, key: Value) -> Value:
    """`v[key]`."""
    at, many, step = index_value(cap, key), length(cap, v), _step(v)
    if not is_size(at) and not is_exactly(at, int):
        raise Break("operator", "what is no number as an index of a range with an end that changes")
    if _holds(cap, operator.lt, at, ZERO):
        at = binary(cap, operator.add, many, at)
    if _holds(cap, operator.lt, at, ZERO) or _holds(cap, operator.ge, at, many):
        raise Raised(Const(IndexError("range object index out of range")))
    return binary(cap, operator.add, v.start, binary(cap, operator.mul, at, Const(step)))


def is_true(cap: Capture, v: RangeV) -> bool:
    """`bool(v)`."""
    return _holds(cap, operator.lt, v.start, v.stop) if _step(v) > 0 else _holds(cap, operator.gt, v.start, v.stop)
