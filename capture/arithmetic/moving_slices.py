"""Slices of arrays that move with a loop's counter and keep their width, in loops that are one node of the Graph.

    for i in range(0, n, 32):
        batch = x[i:i + 32]             # dynamic_slice(x, i, 32)
        y = y.at[i:i + 32].set(batch)   # y.at[i + arange(32)].set(batch)

What both ends are in each round is a line, `at + round * by` (see `loop_numbers`): two of one slope are as far from
each other in every round. What NumPy cuts short at an array's end has another shape: `Clipped` says that the last round
may be such a one, and the loop leaves it to be captured by itself.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax._src.numpy.array_methods import _IndexUpdateHelper

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.sizes import Expr, bounds, is_symbolic
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.slices import axes_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.containers import SliceV, TupleV
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_library_object,
    is_plain_tuple,
    is_slice,
)
from dynacomp.capture.values.value import Value

WHOLE = SliceV(Const(None), Const(None), Const(None))


class Clipped(Break):
    """The end of an array cuts short what the last round takes of it."""


@dataclass(frozen=True)
class Line:
    """An int that is `at + round * by` in each round of a loop."""

    at: Expr
    by: int

    def __add__(self, other: Line) -> Line:
        return Line(self.at + other.at, self.by + other.by)

    def __neg__(self) -> Line:
        return Line(-self.at, -self.by)

    def __mul__(self, other: Line) -> Line | None:
        """The product, where it is a line."""
        a, b = (self, other) if other.by == 0 else (other, self)
        return None if b.by or a.by and is_symbolic(b.at) else Line(a.at * b.at, a.by * b.at)


@dataclass(frozen=True)
class Piece:
    """So many elements from `first` on."""

    first: NumberV
    width: Expr


def cut(cap: Capture, obj: Value, key: Value) -> tuple[Value, Value]:
    """An array, or its `at`, and the key into it, which has no slices that move any more, as far as they keep their
    width."""
    of_at = is_library_object(obj) and type(obj.real) is _IndexUpdateHelper
    array: Any = obj.args[0] if of_at else obj  # type: ignore[attr-defined]
    parts = [cap.realize(k) for k in key.items] if is_plain_tuple(key) else [key]
    if not is_graph_array(array) or not any(map(_moves, parts)) or of_at and not all(map(is_slice, parts)):
        return obj, key
    for place, axis in enumerate(list(axes_of(array.aval.shape, parts))):
        piece = _piece(cap, array.aval.shape[axis], parts[place]) if axis is not None and _moves(parts[place]) else None
        if piece is None or of_at and any(map(is_graph_array, parts)):
            continue
        start, width = ArrayV(piece.first.node, piece.first.aval), size_values.of_expr(cap, piece.width)
        if of_at:
            parts[place] = library_call(cap, places_from, [start, width])
        else:
            array, parts[place] = library_call(cap, lax.dynamic_slice_in_dim, [array, start, width, Const(axis)]), WHOLE
    return obj if of_at else array, TupleV(parts)


def places_from(start: Any, width: Any) -> Any:
    """So many indices from `start` on."""
    return start + jnp.arange(width, dtype=start.dtype)


def _moves(part: Value) -> bool:
    return is_slice(part) and any(v.series is not None for v in of_class(NumberV, (part.start, part.stop)))


def _piece(cap: Capture, size: Expr, part: Any) -> Piece | None:
    """What a slice takes along an axis of this size; None where its width changes, or it may count from the end."""
    start, stop = (cap.realize(v) for v in (part.start, part.stop))
    if not (is_graph_number(start) and is_exactly(part.step, int, types.NoneType) and part.step.value in (1, None)):
        return None
    begins, ends = line_of(start), line_of(stop)
    if begins is None or ends is None or not begins.by or begins.by != ends.by:
        return None
    last = begins.by * (start.series.loop.length - 1)
    width, least, room = ends.at - begins.at, begins.at + min(0, last), size - ends.at - max(0, last)
    if not (bounds(least)[0] >= 0 and width >= 1):
        return None
    if bounds(room)[0] < 0 and (bounds(room + begins.by)[0] >= 0 or not room >= 0):
        raise Clipped("branch", "a slice that the end of an array cuts short, in a loop")
    return Piece(start, width)


def line_of(v: Value) -> Line | None:
    """A number as a line in the rounds of the loop whose body is captured; None where it is none."""
    if is_graph_number(v):
        return None if v.series is None else v.series.line()  # type: ignore[no-any-return]
    return Line(size_values.expr_of(v), 0) if size_values.is_int(v) else None
