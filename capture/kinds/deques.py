"""Deques: they are ListVs with class `deque`, and `extra` is their `maxlen`.

A deque differs from a list in its words, its limit, and in that its iterators notice when it grows
or shrinks (`changes` counts how often it did), as its own searches do.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from typing import Any

from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.indices import has_index, integer
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.kinds.keys import raised
from dynacomp.capture.kinds.sequences import times_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.questions import is_graph_array, is_library_object, is_list, is_object, is_slice, type_name
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.builder import items_of, realize
from dynacomp.capture.wrapping.builtin_subclasses import plain


def changing(cap: Capture, v: ListV) -> None:
    """Must be called before a deque grows or shrinks."""
    mutating(cap, v)
    v.changes += 1


def _place(cap: Capture, v: ListV, key: Value) -> int:
    """The number of the item that `d[key]` means."""
    if is_slice(key) or not has_index(key):
        raise raised(TypeError, f"sequence index must be integer, not {type_name(key)!r}")
    at, n = integer(cap, key), len(v.items)
    if not -n <= at < n:
        raise raised(IndexError, "deque index out of range")
    return at % n


def getitem(cap: Capture, v: ListV, key: Value) -> Value:
    at = _place(cap, v, key)
    item = v.items[at] = realize(cap, v.items[at])
    return item


def setitem(cap: Capture, v: ListV, key: Value, value: Value) -> None:
    at = _place(cap, v, key)
    mutating(cap, v)
    v.items[at] = value


def delitem(cap: Capture, v: ListV, key: Value) -> None:
    at = _place(cap, v, key)
    changing(cap, v)
    del v.items[at]


def _append(cap: Capture, v: ListV, x: Value) -> None:
    changing(cap, v)
    v.items.append(x)
    if v.extra is not None and len(v.items) > v.extra:
        del v.items[0]


def _appendleft(cap: Capture, v: ListV, x: Value) -> None:
    changing(cap, v)
    v.items.insert(0, x)
    if v.extra is not None and len(v.items) > v.extra:
        del v.items[-1]


def _each(add: Any) -> Any:
    def extend(cap: Capture, v: ListV, xs: Value) -> None:
        for x in items_of(cap, v)[:] if plain(xs) is v else iterate(cap, xs):
            add(cap, v, x)  # one by one: a generator may look at the deque
    return extend


_extend = _each(_append)


def _popped(at: int) -> Any:
    def pop(cap: Capture, v: ListV) -> Value:
        if not v.items:
            raise raised(IndexError, "pop from an empty deque")
        changing(cap, v)
        return realize(cap, v.items.pop(at))
    return pop


def _insert(cap: Capture, v: ListV, i: Value, x: Value) -> None:
    at = integer(cap, i)
    if v.extra is not None and len(v.items) >= v.extra:
        raise raised(IndexError, "deque already at its maximum size")
    changing(cap, v)
    v.items.insert(at, x)


def _rotate(cap: Capture, v: ListV, n: Value = Const(1)) -> None:
    turned = collections.deque(v.items)
    turned.rotate(integer(cap, n))
    if len(turned) > 1:
        changing(cap, v)
        v.items[:] = turned


def _clear(cap: Capture, v: ListV) -> None:
    if v.items:
        changing(cap, v)
        v.items.clear()


def _matches(cap: Capture, v: ListV, x: Value, start: int = 0, stop: int = sys.maxsize) -> Iterator[int]:
    """The numbers of the items that equal `x`. RuntimeError where comparing them changes the deque."""
    for at in range(*slice(start, stop).indices(len(v.items))):
        before = v.changes
        if equal(cap, realize(cap, v.items[at]), x):
            yield at
        if v.changes != before:
            raise raised(RuntimeError, "deque mutated during iteration")


def contains(cap: Capture, v: ListV, x: Value) -> bool:
    return next(_matches(cap, v, x), None) is not None


def _index(cap: Capture, v: ListV, x: Value, start: Value = Const(0), stop: Value = Const(sys.maxsize)) -> Value:
    if not has_index(start) or not has_index(stop):
        raise raised(TypeError, "slice indices must be integers or have an __index__ method")
    at = next(_matches(cap, v, x, integer(cap, start), integer(cap, stop)), None)
    if at is None:
        raise raised(ValueError, f"{as_python(cap.call(Const(repr), [x]))} is not in deque")
    return Const(at)


def _count(cap: Capture, v: ListV, x: Value) -> Value:
    return Const(sum(1 for _ in _matches(cap, v, x)))


def _remove(cap: Capture, v: ListV, x: Value) -> None:
    for at in range(len(v.items)):
        before = v.changes
        same = equal(cap, realize(cap, v.items[at]), x)
        if v.changes != before:
            raise raised(IndexError, "deque mutated during remove().")
        if same:
            changing(cap, v)
            del v.items[at]
            return
    raise raised(ValueError, "deque.remove(x): x not in deque")


def _reverse(cap: Capture, v: ListV) -> None:
    mutating(cap, v)
    v.items.reverse()


def copied(cap: Capture, v: ListV) -> ListV:
    return ListV(list(items_of(cap, v)), v.cls, extra=v.extra)


# --- operators


def _add(cap: Capture, a: ListV, b: Value) -> Any:
    other = plain(b)
    if (is_object(b) or is_graph_array(b) or is_library_object(b)) and hasattr(type_of(b), "__radd__"):
        return NotImplemented
    if not (is_list(other) and other.cls is collections.deque):
        raise raised(TypeError, f'can only concatenate deque (not "{type_name(b)}") to deque')
    made = copied(cap, a)
    _extend(cap, made, other)
    return made


def _extend_in_place(cap: Capture, a: ListV, b: Value) -> Value:
    _extend(cap, a, b)
    return a


def _mul(cap: Capture, a: ListV, b: Value) -> Any:
    times = times_of(cap, a, b)
    return NotImplemented if times is None else ListV(_limited(items_of(cap, a) * times, a), a.cls, extra=a.extra)


def _mul_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    times = times_of(cap, a, b)
    if times is None:
        return NotImplemented
    if a.items and times != 1:
        changing(cap, a)
        a.items[:] = _limited(items_of(cap, a) * times, a)
    return a


def _limited(items: list[Any], v: ListV) -> list[Any]:
    return items if v.extra is None else items[max(0, len(items) - v.extra):]


METHODS: dict[str, Any] = {
    "append": _append, "appendleft": _appendleft, "extend": _extend, "extendleft": _each(_appendleft),
    "pop": _popped(-1), "popleft": _popped(0), "insert": _insert, "rotate": _rotate, "clear": _clear,
    "index": _index, "count": _count, "remove": _remove, "reverse": _reverse, "copy": copied, "__copy__": copied,
}
OPERATORS: dict[tuple[str, type], Any] = {
    ("add", collections.deque): _add, ("mul", collections.deque): _mul,
    ("iadd", collections.deque): _extend_in_place, ("imul", collections.deque): _mul_in_place,
}
