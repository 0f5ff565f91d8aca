"""Which object an array is that the Graph chose: an input, or a new one.

`if c: x = x * 2` makes `x` a new array on one side only; where the program hands `x` to Python, the
other side must give back the very input. So a chosen array has an `origin`, an int that the Graph
computes beside it: 0 for a new array, k for number k of `cap.graph.candidates`, arrays that existed.
A row of a given list that the Graph took as one stack (see `rows.given_rows`) is the object that came (`object_of`).
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture import _native
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, ScalarV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import Value

NEW = Const(0)


def origin_of(cap: Capture, v: ArrayV) -> Value:
    """The origin of an array as a Value: constant unless the Graph chose the array."""
    if v.origin is not None:
        return v.origin
    if v.real is None:
        return NEW
    for i, known in enumerate(cap.graph.candidates):
        if known.real is v.real and known.source == v.source:
            return Const(i + 1)
    cap.graph.candidates.append(v)
    return Const(len(cap.graph.candidates))


def candidates(cap: Capture, v: ArrayV) -> list[Any]:
    """The arrays that `v` may be, the first as origin `first(v)`."""
    return cap.graph.candidates[first(v) - 1:v.origin.high]


def first(v: ArrayV) -> int:
    return max(1, v.origin.low)


def chosen(origin: Any, made: Any, first: int, existing: tuple[Any, ...]) -> Any:
    """At run time: the array of that origin."""
    number = _native.read_int(origin)
    return existing[number - first] if number else made


def object_of(cap: Capture, v: ArrayV) -> ScalarV | None:
    """The array that the call was given which a row of a stack is; None where it was given none, or which one is not
    known before the call."""
    own = None if v.row is None else cap.numbers.originals.get(v.row[0])
    if v.row is None or own is None:
        return None
    k = as_scalar(cap, v.row[1])
    if not (is_scalar(k) or is_exactly(k, int)):
        return None
    return dynamic_scalars.host("getitem", operator.getitem, own, k)  # type: ignore[return-value]
