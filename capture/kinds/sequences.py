"""Lists and tuples: subscripts, operators and methods on their Values.

Rows are `row(cap, value, *args, **kwargs)`; `METHODS` and `OPERATORS` are what `containers` knows of.
"""

from __future__ import annotations

import operator
import sys
import types
from typing import Any

from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.indices import has_index, integer, slice_of
from dynacomp.capture.arithmetic.operators import binary, truth
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.kinds import given_items
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.kinds.keys import raised
from dynacomp.capture.numbers import host_functions
from dynacomp.capture.rows import alike_items, grown_lists, stored_rows
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.constant import Const, is_exactly, stands_for
from dynacomp.capture.values.containers import ListV, TupleV, row_kind
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_list, is_plain_tuple, is_slice, is_tuple, own_class
from dynacomp.capture.values.value import NotConstant, Value, as_python, node_of, type_of
from dynacomp.capture.wrapping.builder import items_of, realize
from dynacomp.capture.wrapping.changing_contents import item_at
from dynacomp.capture.wrapping.class_attrs import resolve

MAX_REPEATED = 1 << 15  # items that `[0] * n` makes while capturing: each is a Value, and is looked at one by one


def position_of(cap: Capture, seq: Any, key: Value) -> Any:
    """What `seq[key]` means: an int or a slice; TypeError in the words of subscripts."""
    if is_slice(key) or is_exactly(key, slice):
        return slice_of(cap, key)
    if not has_index(key):
        raise raised(TypeError, f"{seq.cls.__name__} indices must be integers or slices, not {type_of(key).__name__}")
    return integer(cap, key)


def _limit(cap: Capture, end: Value) -> int:
    """An end of the part in which `index` searches."""
    if not has_index(end):
        raise raised(TypeError, "slice indices must be integers or have an __index__ method")
    return integer(cap, end)


def getitem(cap: Capture, seq: Any, key: Value) -> Value:
    row = (given_items.item_at(cap, seq, key) or stored_rows.item_at(cap, seq, key) or
           alike_items.row_at(cap, seq, key) or alike_items.cut(cap, seq, key))
    if row is not None:
        return row
    stored_rows.guess(cap, seq, key)
    found = given_items.chosen(cap, seq, key)
    if found is not None:
        return found
    index = position_of(cap, seq, key)
    if isinstance(index, slice):
        return _slice(cap, seq, index)
    apart = apart_from(cap, seq, index) if getattr(seq, "is_open", False) else None
    if apart is not None:
        return realize(cap, apart)
    try:
        item = seq.items[index] = realize(cap, seq.items[index])
    except IndexError:
        raise raised(IndexError, f"{seq.cls.__name__} index out of range") from None
    return item


def apart_from(cap: Capture, seq: ListV, index: int) -> Any:
    """`seq[index]` of a list of which not all is known, without the other items; None where it needs them."""
    return item_at(cap, seq, index) if seq.front is None else seq.front.item(seq, index)


def _slice_apart(cap: Capture, seq: Any, index: slice) -> Value | None:
    """A slice for which nobody has to look at the items."""
    if index == slice(None):
        return copied(cap, seq) if is_list(seq) else seq if seq.cls is tuple else None
    return alike_items.taken(cap, seq, index) if alike_items.holds_rows(seq) else None


def _slice(cap: Capture, seq: Any, index: slice) -> Value:
    if type(index.step) is int and index.step == 0:  # of lists behind a front, too, whose items nobody looks at then
        raise raised(ValueError, "slice step cannot be zero")
    apart = _slice_apart(cap, seq, index)
    if apart is not None:
        return apart
    try:
        items = items_of(cap, seq)[index]
    except (TypeError, ValueError) as error:
        raise Raised(Const(error)) from None
    whole = len(items) == len(seq.items) and index.step in (None, 1)
    return _of_items(seq, seq if whole else None, items)


def _of_items(seq: Any, same: Any, items: list[Value]) -> Value:
    """What an operator makes of a list or tuple: `same` has these items."""
    return kind(seq).of_items(same, items)  # type: ignore[misc, no-any-return]


def _same_or_new(same: Any, items: list[Value]) -> Value:
    """A tuple of `items`: CPython gives `same` back where it would be an equal one, and its class is no subclass."""
    if not items:
        return TupleV([])
    return same if same is not None and same.cls is tuple else TupleV(items)


define(TupleV, Kind(of_items=_same_or_new))
define(ListV, Kind(of_items=lambda same, items: ListV(items)))


def _concat(cap: Capture, a: Any, b: Value) -> Any:
    if row_kind(b) is not row_kind(a):
        return NotImplemented
    front = grown_lists.extended(cap, a, b)
    if front is not None:
        return ListV([], front=front)
    left, right = items_of(cap, a), items_of(cap, b)
    return _of_items(a, a if not right else b if not left else None, [*left, *right])


def _repeat(cap: Capture, a: Any, b: Value) -> Any:
    made = grown_lists.repeated(cap, a, b)
    if made is not None:
        return made
    times = times_of(cap, a, b)
    if times is None:
        return NotImplemented
    items = items_of(cap, a) * times
    return _of_items(a, a if times == 1 else None, items)


def times_of(cap: Capture, a: Any, b: Value) -> int | None:
    """How often `a * b` repeats the sequence `a`; None where `b` is no integer, or is asked first by its `__rmul__`."""
    cls = own_class(b)
    if node_of(b) is not None or not has_index(b) or (
            cls is not None and type(resolve(cap, cls, "__rmul__")[1]) is types.FunctionType):
        return None
    times = integer(cap, b)
    if len(a.items) * times > MAX_REPEATED:
        raise Break("too_long", f"a {a.cls.__name__} repeated {times} times")
    return times


def _extend_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    extend(cap, a, b)
    return a


def _repeat_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    times = _repeat(cap, a, b)
    if times is not NotImplemented:
        mutating(cap, a)
        a.items[:] = times.items
    return a if times is not NotImplemented else NotImplemented


def copied(cap: Capture, v: ListV) -> ListV:
    """A new list of the same items."""
    return grown_lists.copied(cap, v) or ListV(list(items_of(cap, v)))


def append(cap: Capture, v: ListV, x: Value) -> None:
    """`v.append(x)`."""
    mutating(cap, v)
    if v.is_open and grows(v):
        v.appended.append(x)
        return
    v.items.append(x)


def _pop(cap: Capture, v: ListV, i: Value = Const(-1)) -> Value:
    mutating(cap, v)
    if v.is_open and v.appended and stands_for(i, -1) and grows(v):
        return v.appended.pop()  # type: ignore[no-any-return]
    try:
        return realize(cap, v.items.pop(integer(cap, i)))
    except IndexError as error:
        raise Raised(Const(error)) from None


def _insert(cap: Capture, v: ListV, i: Value, x: Value) -> None:
    mutating(cap, v)
    growing = v.front is not None and not v.front.settled and stands_for(i, 0)
    if not (growing and v.front.put_first(v, x)):
        v.items.insert(integer(cap, i), x)


def grows(v: ListV) -> bool:
    """Whether a list takes more items behind the others, as far as the loop that fills it is concerned."""
    return v.front is None or v.front.grows


def _remove(cap: Capture, v: ListV, x: Value) -> None:
    found = _position(cap, v, x, 0, sys.maxsize)
    if found < 0:
        raise raised(ValueError, "list.remove(x): x not in list")
    mutating(cap, v)
    del v.items[found:found + 1]  # `__eq__` may have changed the list


def _position(cap: Capture, v: Any, x: Value, start: int, stop: int) -> int:
    items = items_of(cap, v)
    at, stop, _ = slice(start, stop).indices(len(items))
    while at < min(stop, len(v.items)):  # __eq__ may change the list
        if equal(cap, realize(cap, v.items[at]), x):
            return at
        at += 1
    return -1


FIRST, LAST = Const(0), Const(sys.maxsize)


def _find(cap: Capture, v: Any, x: Value, start: Value = FIRST, stop: Value = LAST) -> Value:
    at = given_items.index(cap, v, x) if start is FIRST and stop is LAST else None
    if at is not None:
        return at
    found = _position(cap, v, x, _limit(cap, start), _limit(cap, stop))
    if found >= 0:
        return Const(found)
    if is_tuple(v):
        raise raised(ValueError, "tuple.index(x): x not in tuple")
    raise raised(ValueError, f"{as_python(cap.call(Const(repr), [x]))} is not in list")


def _count(cap: Capture, v: Any, x: Value) -> Value:
    return Const(sum(equal(cap, item, x) for item in items_of(cap, v)))


def _reverse(cap: Capture, v: ListV) -> None:
    back = alike_items.taken(cap, v, slice(None, None, -1)) if v.real is None else None
    mutating(cap, v)
    v.items.reverse() if back is None else grown_lists.put(v, back.front)


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


def sort_values(cap: Capture, items: list[Value], key: Value | None, reverse: Any) -> list[Value]:
    """`sorted`: CPython's own algorithm, so that comparisons happen in its order; it judges `reverse`."""
    return sort_by(cap, items, sort_keys(cap, items, key), reverse)


def sort_keys(cap: Capture, items: list[Value], key: Value | None) -> list[Value]:
    return [x if key is None or stands_for(key, None) else cap.call(key, [x]) for x in items]


def _leading(cap: Capture, keys: list[Value]) -> list[Any] | None:
    """What tuples begin with, where that alone orders them: names, or numbers, no two of which are the same."""
    firsts = [cap.items(k)[0] for k in keys if is_plain_tuple(k) and cap.items(k)]
    if len(firsts) < len(keys) or not any(all(is_exactly(x, cls) for x in firsts) for cls in (str, int)):
        return None
    found = [as_python(x) for x in firsts]
    return found if len(set(found)) == len(found) else None


def sort_by(cap: Capture, items: list[Value], keys: list[Value], reverse: Any) -> list[Value]:
    if type(reverse) is bool and all(map(operator.is_, items, keys)):
        made = host_functions.in_order(cap, items, reverse)
        if made is not None:
            return made
    try:
        real: list[Any] = [as_python(k) for k in keys]
    except NotConstant:
        real = _leading(cap, keys) or [Sortable(cap, k) for k in keys]
    try:
        order = sorted(range(len(items)), key=real.__getitem__, reverse=reverse)
    except (TypeError, ValueError) as error:
        raise Raised(Const(error)) from None
    return [items[i] for i in order]


def _sort(cap: Capture, v: ListV, *, key: Value = Const(None), reverse: Value = Const(False)) -> None:
    backwards = as_python(reverse)
    made = alike_items.in_order(cap, v, key, bool(backwards)) if v.real is None else None
    mutating(cap, v)
    if made is None:
        v.items[:] = sort_values(cap, items_of(cap, v), key, backwards)
    else:
        grown_lists.put(v, made.front)


def extend(cap: Capture, v: ListV, xs: Value) -> None:
    """`v.extend(xs)`."""
    front = grown_lists.extension(cap, v, xs)
    if front is not None:
        mutating(cap, v)
        grown_lists.put(v, front)
        return
    for x in iterate(cap, xs):  # one by one: a generator may look at the list
        append(cap, v, x)


_SEQUENCE = {"index": _find, "count": _count}
METHODS: dict[type, dict[str, Any]] = {
    TupleV: _SEQUENCE,
    ListV: {**_SEQUENCE, "append": append, "pop": _pop, "insert": _insert, "remove": _remove, "reverse": _reverse,
            "clear": _clear, "sort": _sort, "extend": extend,
            "copy": copied},
}
OPERATORS: dict[tuple[str, type], Any] = {
    ("add", TupleV): _concat, ("add", ListV): _concat, ("iadd", TupleV): _concat,
    ("mul", TupleV): _repeat, ("mul", ListV): _repeat,
    ("iadd", ListV): _extend_in_place, ("imul", ListV): _repeat_in_place,
}
