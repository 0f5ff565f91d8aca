"""Lists that a call is given, of another length in each call: what their items have in common.

    def loss(rewards, logps):                       # lists of floats, and of arrays of one shape
        return np.mean(rewards) * jnp.stack(logps).sum()

A list is read whole, and its length guarded, until calls have had another one (`changing_contents.Part`). From then on
its items are columns, where they are alike: Python makes `Columns` in each call before the program runs, in the guards'
registers, which raises where the items have other types or shapes. All that changes a list in between, or a list in it,
is a store that the capture sees (it is read item by item then), or breaks the graph.

A column of JAX's arrays is one array. A column of numbers is a tuple, as Python has them, and so is one of NumPy's
arrays. NumPy's functions take a list of one such column as data (see `ndarrays`); `rows.given_rows` goes through it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import has_dict
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import SETTLED, changed, is_one_of
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.questions import is_list
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.changing_contents import in_parts

NUMBERS = (float, int, bool)
MOST = 4096  # items of a list that are looked at in each call
MOST_BYTES = 1 << 18  # of a list of arrays that are stacked in each call: the weights of layers are not
DEPTH = 3  # of tuples in items
HOLDING = (tuple, list, dict)


class Unlike(Exception):
    """Items that are not alike."""


@dataclass(frozen=True)
class Numbers:
    """A column of Python's numbers of one type."""

    kind: type

    def __call__(self, items: Any) -> Iterator[Any]:
        if set(map(type, items)) != {self.kind}:
            raise Unlike
        yield tuple(items)


@dataclass(frozen=True)
class Arrays:
    """A column of JAX's arrays of one dtype, weak type and shape, which is guarded apart, on no device that the program
    has chosen."""

    ndim: int
    dtype: Any
    weak_type: bool

    def __call__(self, items: Any) -> Iterator[Any]:
        if set(map(type, items)) != {ARRAY_TYPE}:
            raise Unlike
        shape = items[0].shape
        for x in items:
            if x.shape != shape or x.dtype != self.dtype or x.weak_type is not self.weak_type or x.committed:
                raise Unlike
        if len(shape) != self.ndim:
            raise Unlike
        yield np.stack([np.asarray(x) for x in items])


@dataclass(frozen=True)
class HostArrays:
    """A column of NumPy's arrays of one shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any

    def __call__(self, items: Any) -> Iterator[Any]:
        if set(map(type, items)) != {np.ndarray} or any(x.shape != self.shape or x.dtype != self.dtype for x in items):
            raise Unlike
        yield tuple(items)


@dataclass(frozen=True)
class Many:
    """Columns of tuples, or of lists, of one length, or of dicts with these keys in this order."""

    cls: type
    parts: tuple[Any, ...]
    keys: tuple[str, ...] = ()

    def __call__(self, items: Any) -> Iterator[Any]:
        if set(map(type, items)) != {self.cls}:
            raise Unlike
        if set(map(tuple, items)) != {self.keys} if self.keys else set(map(len, items)) != {len(self.parts)}:
            raise Unlike
        rows = map(dict.values, items) if self.keys else items
        for part, column in zip(self.parts, zip(*rows)):
            yield from part(column)


@dataclass(frozen=True)
class Columns:
    """The columns of a list's items; Unlike where they are others than `of` says."""

    of: Any

    def __call__(self, items: list[Any]) -> list[Any]:
        return list(self.of(items))


# --- while capturing


def columns(cap: Capture, v: Value) -> tuple[Columns, list[Any], list[S.Host]] | None:
    """What the items of a list have in common that changes from call to call, two at least, those aside that the
    program has appended; its columns now, and their Sources. None for other lists."""
    if not is_list(v) or v.unseen is None or v.source is None or v.cls is not list or not in_parts(cap, v.source):
        return None
    if cap.lessons.items_apart or v.source in cap.lessons.fixed:  # a number in it must be a constant
        return None
    made = None if _holds_changed(cap, v.real) else columns_of(v)
    if made is None:
        return None
    size_values.symbol(cap, S.Count(v.source), len(v.real), least=2)  # first: shorter ones have no columns
    source, found = S.Host(repr(made), (v.source,), made), made(v.real)
    cap.guards.add("is_type", source, list)  # which makes them, or fails
    places = [S.Host("getitem", (source, i), operator.getitem) for i in range(len(found))]
    cap.numbers.changing.update(zip(places, found))
    cap.known.rows.update((id(x), v.source) for x in _inner(v.real))
    return made, found, places


def _inner(items: Any) -> Iterator[Any]:
    """The lists and dicts in there."""
    for x in items:
        if type(x) in (list, dict):
            yield x
        if type(x) in HOLDING:
            yield from _inner(x.values() if type(x) is dict else x)


def _holds_changed(cap: Capture, items: Any) -> bool:
    """Whether the program has changed a list or dict in there, so that its items are no more what they were before the
    call."""
    inner = {id(x) for x in _inner(items)}
    return bool(inner) and any(is_one_of(v, inner) for v in changed(cap))


def _holds(items: list[Any], one: Any) -> bool:
    return any(x is one for x in _inner(items))


def _apart(cap: Capture) -> None:
    """A list, a dict or an object that the captured code has changed is none of a list whose items it read as rows."""
    for v in changed(cap) if cap.known.rows else ():
        one = v.source or v.holder.source
        if not isinstance(v.real, (list, dict)):  # type: ignore[attr-defined]
            one = S.DictOf(one) if has_dict(type(v.real)) else None  # type: ignore[attr-defined]
        for rows in dict.fromkeys(cap.known.rows.values()) if one is not None else ():
            cap.guards.add("eq", S.Host("holds", (rows, one), _holds), False)


SETTLED.append(_apart)


def columns_of(v: ListV) -> Columns | None:
    items = list(list.__iter__(v.real))
    if not 2 <= len(items) <= MOST:
        return None
    try:
        found = Columns(_of_item(items[0], DEPTH))
        size = sum(getattr(column, "nbytes", 0) for column in found(items))
    except Unlike:
        return None
    return found if size <= MOST_BYTES else None


def _of_item(item: Any, depth: int) -> Any:
    cls: Any = type(item)
    if cls in NUMBERS:
        return Numbers(cls)
    if cls is ARRAY_TYPE and _is_on_host(item):
        return Arrays(item.ndim, item.dtype, item.weak_type)
    if cls is np.ndarray and item.dtype.kind in "biuf":
        return HostArrays(item.shape, item.dtype)
    if (cls in (tuple, list) or _is_named_tuple(cls)) and item and depth:
        return Many(cls, tuple(_of_item(x, depth - 1) for x in item))
    if cls is dict and item and depth and set(map(type, item)) == {str}:
        return Many(cls, tuple(_of_item(x, depth - 1) for x in item.values()), tuple(item))
    raise Unlike


def _is_named_tuple(cls: type) -> bool:
    """Whether instances hold their items and nothing else, and give them as tuples do."""
    return issubclass(cls, tuple) and cls.__iter__ is tuple.__iter__ and cls.__len__ is tuple.__len__ and (
        hasattr(cls, "_fields") and not has_dict(cls))


def _is_on_host(array: Any) -> bool:
    """Whether NumPy reads it where it is."""
    return not jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended) and all(
        d.platform == "cpu" for d in array.devices()) and jax.default_backend() == "cpu"

