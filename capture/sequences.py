"""Lists, tuples and deques: subscripts, operators and methods on their Values.

Rows are `row(cap, value, *args, **kwargs)`; `METHODS` and `OPERATORS` are what `containers` knows of.
"""

from __future__ import annotations

import collections
import operator
import sys
from typing import Any

from dynacomp.capture import sizes
from dynacomp.capture.effects import mutating
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.iteration import iterate
from dynacomp.capture.keys import raised
from dynacomp.capture.machine import Capture
from dynacomp.capture.operators import binary, equal, truth
from dynacomp.capture.values import Const, ListV, NotConstant, ObjectV, SizeV, SliceV, TupleV, Value, as_python, type_of
from dynacomp.capture.wrap import items_of, realize

MAX_REPEATED = 1 << 15  # items that `[0] * n` makes while capturing: each is a Value, and is looked at one by one


def _index(cap: Capture, key: Value) -> Any:
    """A sequence index or slice as a Python object."""
    if isinstance(key, SizeV):
        return sizes.concrete(cap, key).value
    if isinstance(key, SliceV):
        return slice(*(_end(cap, k) for k in (key.start, key.stop, key.step)))
    if isinstance(key, ObjectV):
        return as_python(cap.call(cap.getattr(key, "__index__"), []))
    try:
        return operator.index(as_python(key)) if not isinstance(as_python(key), (slice, type(None))) else as_python(key)
    except NotConstant:
        raise Break("leaves", "a list or tuple indexed by an array") from None
    except TypeError as error:
        raise Raised(Const(error)) from None


def _end(cap: Capture, end: Value) -> Any:
    """A part of a slice; sequences refuse others than numbers when they use it."""
    return as_python(end) if isinstance(end, Const) else _index(cap, end)


def position_of(cap: Capture, seq: Any, key: Value) -> Any:
    """What `seq[key]` means: an int or a slice; TypeError in the words of subscripts."""
    if isinstance(key, Const) and key.value is not None and not hasattr(type(key.value), "__index__"):
        kind, not_this = type_of(seq).__name__, type(key.value).__name__
        raise raised(TypeError, f"{kind} indices must be integers or slices, not {not_this}")
    return _index(cap, key)


def _seq_getitem(cap: Capture, seq: Any, key: Value) -> Value:
    index = position_of(cap, seq, key)
    if isinstance(index, slice):
        return _slice(cap, seq, index)
    try:
        item = seq.items[index] = realize(cap, seq.items[index])
    except IndexError:
        raise raised(IndexError, f"{seq.cls.__name__} index out of range") from None
    return item


def _slice(cap: Capture, seq: Any, index: slice) -> Value:
    try:
        items = items_of(cap, seq)[index]
    except (TypeError, ValueError) as error:
        raise Raised(Const(error)) from None
    if isinstance(seq, ListV):
        return ListV(items, seq.cls)
    whole = len(items) == len(seq.items) and index.step in (None, 1)
    return _same_or_new(seq if whole else None, items)


def _same_or_new(same: Any, items: list[Value]) -> Value:
    """A tuple of `items`: CPython gives `same` back where it would be an equal one, and its class is no subclass."""
    if not items:
        return Const(())
    return same if same is not None and same.cls is tuple else TupleV(items)


def _concat(cap: Capture, a: Any, b: Value) -> Any:
    if type(b) is not type(a):
        return NotImplemented
    left, right = items_of(cap, a), items_of(cap, b)
    if isinstance(a, TupleV):
        return _same_or_new(a if not right else b if not left else None, [*left, *right])
    return ListV([*left, *right])


def _repeat(cap: Capture, a: Any, b: Value) -> Any:
    if isinstance(b, SizeV):
        b = sizes.concrete(cap, b)
    if isinstance(b, ObjectV) and cap.special(b, "__index__") is not None:
        b = Const(_index(cap, b))
    if not (isinstance(b, Const) and isinstance(b.value, int)):
        return NotImplemented
    items = items_of(cap, a)
    if len(items) * b.value > MAX_REPEATED:
        raise Break("too_long", f"a {a.cls.__name__} repeated {b.value} times")
    if isinstance(a, TupleV):
        return _same_or_new(a if b.value == 1 else None, items * b.value)
    return ListV(items * b.value)


def _extend_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    _extend(cap, a, b)
    return a


def _repeat_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    times = _repeat(cap, a, b)
    if times is not NotImplemented:
        mutating(cap, a)
        a.items[:] = times.items
    return a if times is not NotImplemented else NotImplemented


def _append(cap: Capture, v: ListV, x: Value) -> None:
    mutating(cap, v)
    if v.unseen is not None:
        v.appended.append(x)
        return
    v.items.append(x)
    maxlen = v.extra
    if maxlen is not None and len(v.items) > maxlen:
        del v.items[0]


def _pop(cap: Capture, v: ListV, i: Value = Const(-1)) -> Value:
    mutating(cap, v)
    try:
        return realize(cap, v.items.pop(_index(cap, i)))
    except IndexError as error:
        raise Raised(Const(error)) from None


def _insert(cap: Capture, v: ListV, i: Value, x: Value) -> None:
    mutating(cap, v)
    v.items.insert(_index(cap, i), x)


def _remove(cap: Capture, v: ListV, x: Value) -> None:
    found = _position(cap, v, x, 0, sys.maxsize)
    if found < 0:
        raise raised(ValueError, f"{v.cls.__name__}.remove(x): x not in {v.cls.__name__}")
    mutating(cap, v)
    del v.items[found]


def _position(cap: Capture, v: Any, x: Value, start: int, stop: int) -> int:
    items = items_of(cap, v)
    at, stop, _ = slice(start, stop).indices(len(items))
    while at < min(stop, len(v.items)):  # __eq__ may change the list
        if equal(cap, realize(cap, v.items[at]), x):
            return at
        at += 1
    return -1


def _find(cap: Capture, v: Any, x: Value, start: Value = Const(0), stop: Value = Const(sys.maxsize)) -> Value:
    found = _position(cap, v, x, _index(cap, start), _index(cap, stop))
    if found >= 0:
        return Const(found)
    if isinstance(v, TupleV):
        raise raised(ValueError, "tuple.index(x): x not in tuple")
    raise raised(ValueError, f"{as_python(cap.call(Const(repr), [x]))} is not in {v.cls.__name__}")


def _count(cap: Capture, v: Any, x: Value) -> Value:
    return Const(sum(equal(cap, item, x) for item in items_of(cap, v)))


def _reverse(cap: Capture, v: ListV) -> None:
    mutating(cap, v)
    v.items.reverse()


def _clear(cap: Capture, v: Any) -> None:
    mutating(cap, v)
    v.items.clear()


class Sortable:
    """A sort key whose `<` runs on the symbolic machine."""

    __slots__ = ("cap", "value")

    def __init__(self, cap: Capture, value: Value) -> None:
        self.cap, self.value = cap, value

    def __lt__(self, other: Sortable) -> bool:
        return truth(self.cap, binary(self.cap, operator.lt, self.value, other.value))


def sort_values(cap: Capture, items: list[Value], key: Value | None, reverse: bool) -> list[Value]:
    """`sorted`: CPython's own algorithm, so that comparisons happen in its order."""
    keys = [x if key is None or (isinstance(key, Const) and key.value is None) else cap.call(key, [x]) for x in items]
    try:
        real: list[Any] = [as_python(k) for k in keys]
    except NotConstant:
        real = [Sortable(cap, k) for k in keys]
    try:
        order = sorted(range(len(items)), key=real.__getitem__, reverse=reverse)
    except (TypeError, ValueError) as error:
        raise Raised(Const(error)) from None
    return [items[i] for i in order]


def _sort(cap: Capture, v: ListV, *, key: Value | None = None, reverse: Value = Const(False)) -> None:
    mutating(cap, v)
    v.items[:] = sort_values(cap, items_of(cap, v), key, bool(as_python(reverse)))


def _extend(cap: Capture, v: ListV, xs: Value) -> None:
    for x in iterate(cap, xs):  # one by one: a generator may look at the list
        _append(cap, v, x)


def _appendleft(cap: Capture, v: ListV, x: Value) -> None:
    mutating(cap, v)
    v.items.insert(0, x)
    if v.extra is not None and len(v.items) > v.extra:
        del v.items[-1]


def _rotate(cap: Capture, v: ListV, n: Value = Const(1)) -> None:
    mutating(cap, v)
    turned = collections.deque(v.items)
    turned.rotate(_index(cap, n))
    v.items[:] = turned


def _extendleft(cap: Capture, v: ListV, xs: Value) -> None:
    for x in iterate(cap, xs):
        _appendleft(cap, v, x)


_SEQUENCE = {"index": _find, "count": _count}
METHODS: dict[type, dict[str, Any]] = {
    TupleV: _SEQUENCE,
    ListV: {**_SEQUENCE, "append": _append, "pop": _pop, "insert": _insert, "remove": _remove, "reverse": _reverse,
            "clear": _clear, "sort": _sort, "extend": _extend, "appendleft": _appendleft,
            "rotate": _rotate, "extendleft": _extendleft,
            "popleft": lambda cap, v: _pop(cap, v, Const(0)),
            "copy": lambda cap, v: ListV(list(items_of(cap, v)), v.cls, extra=v.extra)},
}
OPERATORS: dict[tuple[str, type], Any] = {
    ("getitem", TupleV): _seq_getitem, ("getitem", ListV): _seq_getitem,
    ("add", TupleV): _concat, ("add", ListV): _concat, ("iadd", TupleV): _concat,
    ("mul", TupleV): _repeat, ("mul", ListV): _repeat,
    ("iadd", ListV): _extend_in_place, ("imul", ListV): _repeat_in_place,
}
