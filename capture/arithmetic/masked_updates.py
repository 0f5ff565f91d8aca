"""Updates of an array where a mask says so, by one number or row: the Graph computes all elements and chooses.

    x = x.at[x < 0].set(0.0)      # where(x < 0, x.at[...].set(0.0), x)
    x = x.at[0, m].add(1.0)       # x.at[0, :].set(where(m, x[0, :].at[...].add(1.0), x[0, :]))
    x = x.at[m].set(row)          # one row, the same in all places

Eager JAX looks at the mask and finds the places, however many there are; what it writes there is the same for all,
so that nothing depends on how many. JAX's own update of all elements says what dtypes, warnings and errors there are.
Where eager JAX traces, in bodies of `vmap` or `scan`, it refuses a mask that they compute, and so it is refused here;
one from outside it has as an array there, too.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, holds, is_exactly, object_of, stands_for
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_library_object,
    is_plain_tuple,
    is_scalar,
    is_size,
    is_slice,
)
from dynacomp.capture.values.value import Value


def update_where(name: str, x: Any, index: tuple[Any, ...], mask: Any, before: int, value: Any) -> Any:
    """`getattr(x.at[..., mask, ...], name)(value)`. index: the whole one with full slices in place of the mask, before
    which `before` axes are left; () where the mask is all of it."""
    part = x[index] if index else x
    after = part.ndim - mask.ndim - before
    chosen = mask.reshape((1,) * before + mask.shape + (1,) * after)
    if name == "multiply" and jnp.issubdtype(jnp.result_type(value), jnp.inexact):
        value = jnp.where(chosen, value, jnp.ones_like(value))  # no derivative goes through infinity elsewhere
    made = jnp.where(chosen, getattr(part.at[...], name)(value), part)
    return x.at[index].set(made) if index else made


DERIVED = ("set", "add")  # those with derivatives whatever the places are
UPDATES = ("set", "add", "subtract", "multiply", "min", "max")


def updated(cap: Capture, fn: LibraryV, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What `x.at[mask].set(value)` gives; None where that is another call, or JAX has to look at the mask."""
    ref = _part_of(fn, getattr, UPDATES)
    at = _part_of(ref, operator.getitem) if is_library_object(ref) else None
    array: Any = _part_of(at, getattr, ["at"]) if is_library_object(at) else None
    if not is_graph_array(array) or kwargs or len(args) != 1 or cap.root.traced or cap.effects.jitted:
        return None
    place = _place(cap, ref.args[1], array.aval.shape)  # type: ignore[union-attr]
    if place is None or cap.bodies and not (
            object_of(fn.args[1]) in DERIVED and cap.graph.owner.get(place.mask.node) == 0):
        return None
    if not (_is_number(args[0]) or _is_alike(cap, args[0], place)):
        return None
    given = [fn.args[1], array, TupleV(place.index), place.mask, Const(place.before), args[0]]
    return library_call(cap, update_where, given, name=object_of(fn.args[1]))


@dataclass(frozen=True)
class Place:
    """Where an index leads that has one mask. index: with slices for the mask, () where it is all; before: axes left
    before the mask; after: the sizes of those behind it, None where the index has numbers, which may move them."""

    mask: Any
    index: list[Value]
    before: int
    after: tuple[Any, ...] | None


def _place(cap: Capture, index: Value, shape: tuple[Any, ...]) -> Place | None:
    """None of an index that is other than one mask, or that beside numbers and full slices."""
    items = cap.items(index) if is_plain_tuple(index) else [index]
    at = next((i for i, item in enumerate(items) if _is_mask(item)), None)
    rest = [item for i, item in enumerate(items) if i != at]
    if at is None or not all(_is_full(item) or _is_position(item) for item in rest):
        return None
    mask: Any = items[at]
    end = at + len(mask.aval.shape)
    if not _same(cap, shape[at:end], mask.aval.shape) or len(rest) > len(shape) - len(mask.aval.shape):
        return None
    slices: list[Value] = [Const(slice(None))] * len(mask.aval.shape)
    after = None if not all(map(_is_full, rest)) else shape[end:]
    whole = [] if not rest else [*items[:at], *slices, *items[at + 1:]]
    return Place(mask, whole, sum(map(_is_full, items[:at])), after)


def _is_mask(item: Any) -> bool:
    return is_graph_array(item) and item.aval.dtype == bool and item.aval.shape != ()


def _is_full(item: Any) -> bool:
    parts = (item.start, item.stop, item.step) if is_slice(item) else ()
    return holds(item, slice) and item.value == slice(None) or bool(parts) and all(stands_for(p, None) for p in parts)


def _is_position(item: Any) -> bool:
    return is_exactly(item, int)


def _is_alike(cap: Capture, value: Any, place: Place) -> bool:
    """Whether what is written is an array that is the same in all places: it has the last axes of those behind the
    mask."""
    if place.after is None or not is_graph_array(value) or len(value.aval.shape) > len(place.after):
        return False
    return _same(cap, value.aval.shape, place.after[len(place.after) - len(value.aval.shape):])


def _same(cap: Capture, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether sizes are equal, which is guarded: eager JAX raises where they are not."""
    with cap.sizes.scope.decides():
        return len(one) == len(other) and all(a == b for a, b in zip(one, other))


def _part_of(obj: LibraryV, make: Any, names: Any = None) -> Value | None:
    """What `make(part, name)` was given to make the object; None where something else has made it."""
    known = obj.make is make and len(obj.args) == 2 and (names is None or object_of(obj.args[1]) in names)
    return obj.args[0] if known else None


def _is_number(value: Any) -> bool:
    return is_scalar(value) or is_size(value) or is_graph_number(value) or holds(
        value, (bool, int, float, complex, np.generic)) or is_graph_array(value) and value.aval.shape == ()
