"""Slices of arrays whose ends are ints that change: `x[:k]`, `x[a:b]`, also below zero and beyond the array.

Between which elements such a slice lies depends on the signs of its ends and on the array's size. So that one entry
serves all of that, its first element and how many it has are computed in each call, and these two are
sizes with symbols of their own. A slice without elements has an entry of its own, as empty arrays have.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src.numpy.array_methods import _IndexUpdateHelper

from dynacomp.capture._native import slice_first, slice_length
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.host_functions import as_index, as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.containers import SliceV, TupleV
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_library_object,
    is_plain_tuple,
    is_scalar,
    is_size,
    is_slice,
)
from dynacomp.capture.values.value import Value, now

ENDLESS = 1 << 62  # more than any array has


def bounded(cap: Capture, obj: Value, key: Value) -> Value:
    """The key of an array, or of its `at`, with the ends of its slices as sizes where they are numbers that change."""
    array = obj.args[0] if is_library_object(obj) and type(obj.real) is _IndexUpdateHelper else obj
    shape = array.aval.shape if is_graph_array(array) else ()
    if is_slice(key) and shape:
        return _bounded(cap, shape[0], key)
    if not is_plain_tuple(key) or not any(of_class(SliceV, key.items)):
        return key
    items = [cap.realize(k) for k in key.items]
    axes = axes_of(shape, items)
    return TupleV([k if axis is None else _bounded(cap, shape[axis], k) for axis, k in zip(axes, items)])


def axes_of(shape: Sequence[Any], items: Sequence[Value]) -> Iterator[int | None]:
    """To which axis each part of a key belongs, as far as that is plain."""
    axis: int | None = 0
    for place, item in enumerate(items):
        yield axis if axis is not None and axis < len(shape) else None
        if is_exactly(item, types.EllipsisType):
            rest = items[place + 1:]
            axis = len(shape) - sum(not is_exactly(k, types.NoneType) for k in rest)
            axis = None if axis < 0 or any(map(_is_mask, rest)) else axis
        elif _is_mask(item):
            axis = None
        elif axis is not None and not is_exactly(item, types.NoneType):
            axis += 1


def _is_mask(item: Value) -> bool:
    """Whether a part of a key may take more than one axis, or none."""
    if is_graph_array(item):
        return bool(item.aval.dtype == bool)
    known = is_exactly(item, int, types.NoneType, types.EllipsisType, slice) or is_slice(item) or is_size(item)
    return not (known or is_scalar(item) and type(item.hint) is int or is_graph_number(item) and item.kind is int)


def _bounded(cap: Capture, size: Any, key: Value) -> Value:
    """A slice along an axis of this size, its ends as sizes where one of them changes and the step is known."""
    if not is_slice(key):
        return key
    start, stop, step = (as_index(cap, cap.realize(end)) for end in (key.start, key.stop, key.step))
    by = 1 if is_exactly(step, types.NoneType) else step.value if is_exactly(step, int) else 0
    ends = [Const(default) if is_exactly(end, types.NoneType) else as_scalar(cap, end)
            for end, default in ((start, 0), (stop, ENDLESS))]
    if by < 1 or not any(of_class(ScalarV, (start, stop))) or not all(map(_is_end, ends)):
        return key
    whole = as_scalar(cap, size_values.of_expr(cap, size))
    many: Any = dynamic_scalars.host("slice_length", slice_length, *ends, Const(by), whole)
    found = _as_size(cap, many, least=1)
    if not found:
        return SliceV(Const(0), Const(0), Const(None))
    begin = 0 if is_exactly(start, types.NoneType) else _as_size(
        cap, dynamic_scalars.host("slice_first", slice_first, ends[0], whole), least=0)
    ended = begin + (found - 1) * by + 1
    within = size >= ended  # it is; known from now on: no min of the two asks which is the smaller one
    return SliceV(size_values.of_expr(cap, begin), size_values.of_expr(cap, ended), step) if within else key


def _is_end(end: Value) -> bool:
    return type(now(end)) is int


def _as_size(cap: Capture, number: Any, least: int) -> Any:
    """What Python computes as a size; a number below the least one is a constant."""
    if number.hint < least:
        cap.guards.add("eq", number.source, number.hint)
        return number.hint
    return size_values.symbol(cap, number.source, number.hint, least=least)

