"""Lists, tuples, dicts, sets: subscripts, operators and methods on their Values.

Rows are `(method name) → row(cap, value, *args, **kwargs)`. Keys of dicts and elements of sets are
constants (`hashable`); anything else breaks the graph.
"""

from __future__ import annotations

import collections
import functools
import inspect
import operator
import sys
import types
from typing import Any

from dynacomp.capture import sizes
from dynacomp.capture.attrs import lookup
from dynacomp.capture.effects import mutating
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.iteration import elements, get_iter, iterate, key_value
from dynacomp.capture.machine import Capture
from dynacomp.capture.operators import CONTAINER_OPS, binary, equal, fold, truth
from dynacomp.capture.values import (
    CellV,
    Const,
    DictV,
    FunctionV,
    HashedV,
    ListV,
    MethodV,
    NotConstant,
    ObjectV,
    SetV,
    SizeV,
    SliceV,
    TupleV,
    Value,
    ViewV,
    as_python,
    type_of,
)
from dynacomp.capture.wrap import items_of, realize


def raised(kind: type[BaseException], *args: Any) -> Raised:
    return Raised(Const(kind(*args)))


def hashable(cap: Capture, value: Value) -> Any:
    """The Python object that a Value is as a dict key. Objects with a hash of their own become
    `HashedV`s; those that hash by identity are their own key."""
    if isinstance(value, SizeV):
        value = sizes.concrete(cap, value)
    if isinstance(value, ObjectV):
        return _object_key(cap, value)
    if isinstance(value, (FunctionV, MethodV, CellV)):
        return value
    try:
        key = as_python(value)
        hash(key)
    except NotConstant:
        if isinstance(value, TupleV):
            return HashedV(value, hash(tuple(hashable(cap, x) for x in items_of(cap, value))), _same(cap))
        if isinstance(value, (ListV, DictV, SetV)):
            raise raised(TypeError, f"unhashable type: {value.cls.__name__!r}") from None
        raise Break("hash", "a key that holds an array") from None
    except TypeError as error:
        raise Raised(Const(error)) from None
    return key


def _object_key(cap: Capture, value: ObjectV) -> Any:
    owner, raw = lookup(value.cls, "__hash__")
    if raw is None:
        raise raised(TypeError, f"unhashable type: {value.cls.__name__!r}")
    if not isinstance(raw, types.FunctionType):
        return value if value.real is None else value.real
    found = as_python(cap.call(cap.special(value, "__hash__"), []))  # type: ignore[arg-type]
    if not isinstance(found, int):
        raise raised(TypeError, "__hash__ method should return an integer")
    return HashedV(value, hash(found), _same(cap))


def _same(cap: Capture) -> Any:
    return lambda a, b: equal(cap, a, b)


# --- subscripts


def _index(cap: Capture, key: Value) -> Any:
    """A sequence index or slice as a Python object."""
    if isinstance(key, SizeV):
        return sizes.concrete(cap, key).value
    if isinstance(key, SliceV):
        return slice(*(_index(cap, k) for k in (key.start, key.stop, key.step)))
    if isinstance(key, ObjectV):
        return as_python(cap.call(cap.getattr(key, "__index__"), []))
    try:
        return operator.index(as_python(key)) if not isinstance(as_python(key), (slice, type(None))) else as_python(key)
    except NotConstant:
        raise Break("leaves", "a list or tuple indexed by an array") from None
    except TypeError as error:
        raise Raised(Const(error)) from None


def _position_of(cap: Capture, seq: Any, key: Value) -> Any:
    """What `seq[key]` means: an int or a slice; TypeError in the words of subscripts."""
    if isinstance(key, Const) and key.value is not None and not hasattr(type(key.value), "__index__"):
        kind, not_this = type_of(seq).__name__, type(key.value).__name__
        raise raised(TypeError, f"{kind} indices must be integers or slices, not {not_this}")
    return _index(cap, key)


def _seq_getitem(cap: Capture, seq: Any, key: Value) -> Value:
    index = _position_of(cap, seq, key)
    if isinstance(index, slice):
        return type(seq)(items_of(cap, seq)[index], tuple if isinstance(seq, TupleV) else seq.cls)
    try:
        item = seq.items[index] = realize(cap, seq.items[index])
    except IndexError:
        raise raised(IndexError, f"{seq.cls.__name__} index out of range") from None
    return item


def _dict_getitem(cap: Capture, table: DictV, key: Value) -> Value:
    name = hashable(cap, key)
    if name in table.items:
        item = table.items[name] = realize(cap, table.items[name])
        return item
    if table.factory is not None and not (isinstance(table.factory, Const) and table.factory.value is None):
        mutating(cap, table)
        made = table.items[name] = cap.call(table.factory, [])
        return made
    raise missing_key(key)


def setitem(cap: Capture, obj: Value, key: Value, value: Value) -> None:
    if isinstance(obj, ListV):
        mutating(cap, obj)
        index = _position_of(cap, obj, key)
        content = list(iterate(cap, value)) if isinstance(index, slice) else value
        try:
            items_of(cap, obj)[index] = content
        except (IndexError, ValueError) as error:
            raise Raised(Const(error)) from None
    elif isinstance(obj, DictV):
        mutating(cap, obj)
        obj.items[hashable(cap, key)] = value
    elif isinstance(obj, ObjectV):
        _special_item(cap, obj, "__setitem__", "assignment", key, value)
    else:
        raise Break("store", f"item assignment on {_kind(obj)}")


def delitem(cap: Capture, obj: Value, key: Value) -> None:
    if isinstance(obj, ListV):
        mutating(cap, obj)
        try:
            del obj.items[_position_of(cap, obj, key)]
        except IndexError as error:
            raise Raised(Const(error)) from None
    elif isinstance(obj, DictV):
        name = hashable(cap, key)
        if name not in obj.items:
            raise missing_key(key)
        mutating(cap, obj)
        del obj.items[name]
    elif isinstance(obj, ObjectV):
        _special_item(cap, obj, "__delitem__", "deletion", key)
    else:
        raise Break("store", f"item deletion on {_kind(obj)}")


def _special_item(cap: Capture, obj: ObjectV, name: str, what: str, *args: Value) -> None:
    method = cap.special(obj, name)
    if method is None:
        raise raised(TypeError, f"{obj.cls.__name__!r} object does not support item {what}")
    cap.call(method, list(args))


def _kind(v: Value) -> str:
    try:
        return type_of(v).__name__
    except NotConstant:
        return type(v).__name__


def contains(cap: Capture, container: Value, item: Value) -> bool:
    if isinstance(container, (DictV, SetV)):
        return hashable(cap, item) in container.items
    if isinstance(container, ViewV) and container.kind == "keys":
        return hashable(cap, item) in container.table.items
    if isinstance(container, ObjectV):
        return _object_contains(cap, container, item)
    if isinstance(container, Const):
        found = fold(cap, operator.contains, container, item)
        assert isinstance(found, Const)
        return found.value
    return any(equal(cap, x, item) for x in iterate(cap, container))


def _object_contains(cap: Capture, container: ObjectV, item: Value) -> bool:
    method = cap.special(container, "__contains__")
    if method is not None:
        return truth(cap, cap.call(method, [item]))
    if cap.special(container, "__iter__") is None and cap.special(container, "__getitem__") is None:
        raise raised(TypeError, f"argument of type {container.cls.__name__!r} is not iterable")
    return any(equal(cap, x, item) for x in iterate(cap, container))


# --- operators


def _concat(cap: Capture, a: Any, b: Value) -> Any:
    if type(b) is not type(a):
        return NotImplemented
    kind: Any = type(a)
    return kind([*items_of(cap, a), *items_of(cap, b)])


def _repeat(cap: Capture, a: Any, b: Value) -> Any:
    if isinstance(b, SizeV):
        b = sizes.concrete(cap, b)
    if not (isinstance(b, Const) and isinstance(b.value, int)):
        return NotImplemented
    return type(a)(items_of(cap, a) * b.value)


def _extend_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    mutating(cap, a)
    items_of(cap, a).extend(iterate(cap, b))
    return a


def _repeat_in_place(cap: Capture, a: ListV, b: Value) -> Any:
    times = _repeat(cap, a, b)
    if times is not NotImplemented:
        mutating(cap, a)
        a.items[:] = times.items
    return a if times is not NotImplemented else NotImplemented


def _merge(cap: Capture, a: DictV, b: Value) -> Any:
    if not isinstance(b, DictV):
        return NotImplemented
    return DictV({**a.items, **b.items}, a.cls, factory=a.factory)


def _merge_in_place(cap: Capture, a: DictV, b: Value) -> Any:
    mutating(cap, a)
    _update(cap, a, b)
    return a


def _as_set(cap: Capture, v: Value) -> set[Any] | None:
    """The elements of a set, or of a dict's keys or items; None for other Values."""
    if isinstance(v, SetV):
        return v.items
    if isinstance(v, ViewV) and v.kind != "values":
        return set(v.table.items) if v.kind == "keys" else {hashable(cap, x) for x in elements(cap, v)}
    return None


def _set_op(op: Any) -> Any:
    def row(cap: Capture, a: Any, b: Value) -> Any:
        left, right = _as_set(cap, a), _as_set(cap, b)
        if left is None or (right is None and not isinstance(a, ViewV)):
            return NotImplemented
        found = op(left, {hashable(cap, x) for x in iterate(cap, b)} if right is None else right)
        return Const(found) if isinstance(found, bool) else SetV(found, a.cls if isinstance(a, SetV) else set)
    return row


def _set_compare(op: Any) -> Any:
    def row(cap: Capture, a: Any, b: Value) -> Any:
        left, right = _as_set(cap, a), _as_set(cap, b)
        return NotImplemented if left is None or right is None else Const(op(left, right))
    return row


def _change_in_place(op: Any) -> Any:
    def row(cap: Capture, a: SetV, b: Value) -> Any:
        right = _as_set(cap, b)
        if right is None or a.cls is not set:
            return NotImplemented
        mutating(cap, a)
        op(a.items, right)
        return a
    return row


SET_OPS = (operator.or_, operator.and_, operator.sub, operator.xor)
SET_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


_ROWS: dict[tuple[str, type], Any] = {
    ("getitem", TupleV): _seq_getitem, ("getitem", ListV): _seq_getitem, ("getitem", DictV): _dict_getitem,
    ("add", TupleV): _concat, ("add", ListV): _concat, ("iadd", TupleV): _concat,
    ("mul", TupleV): _repeat, ("mul", ListV): _repeat,
    ("iadd", ListV): _extend_in_place,
    ("or_", DictV): _merge, ("ior", DictV): _merge_in_place,
    **{(op.__name__, kind): _set_op(op) for op in SET_OPS for kind in (SetV, ViewV)},
    **{(op.__name__, kind): _set_compare(op) for op in SET_COMPARISONS for kind in (SetV, ViewV)},
    **{(op.__name__, SetV): _change_in_place(op) for op in (operator.ior, operator.iand, operator.isub, operator.ixor)},
    ("imul", ListV): _repeat_in_place,
}
CONTAINER_OPS.update(_ROWS)


# --- methods


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
    return next((i for i in range(*slice(start, stop).indices(len(items))) if equal(cap, items[i], x)), -1)


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
    for x in list(iterate(cap, xs)):
        _append(cap, v, x)


def _appendleft(cap: Capture, v: ListV, x: Value) -> None:
    mutating(cap, v)
    v.items.insert(0, x)
    if v.extra is not None and len(v.items) > v.extra:
        del v.items[-1]


def _get(cap: Capture, v: DictV, key: Value, default: Value = Const(None)) -> Value:
    name = hashable(cap, key)
    return realize(cap, v.items[name]) if name in v.items else default


def _setdefault(cap: Capture, v: DictV, key: Value, default: Value = Const(None)) -> Value:
    name = hashable(cap, key)
    if name not in v.items:
        mutating(cap, v)
        v.items[name] = default
    v.items[name] = realize(cap, v.items[name])
    return v.items[name]


def _dict_pop(cap: Capture, v: DictV, key: Value, *default: Value) -> Value:
    name = hashable(cap, key)
    if name not in v.items:
        if default:
            return default[0]
        raise missing_key(key)
    mutating(cap, v)
    return realize(cap, v.items.pop(name))


def _popitem(cap: Capture, v: DictV, last: Value = Const(True)) -> Value:
    if not v.items:
        raise raised(KeyError, "dictionary is empty" if v.cls is collections.OrderedDict else
                     "popitem(): dictionary is empty")
    mutating(cap, v)
    key = next(reversed(v.items) if truth(cap, last) else iter(v.items))
    item = v.items.pop(key)
    return TupleV([key_value(cap, key), realize(cap, item)])


def pairs(cap: Capture, source: Value) -> list[tuple[Any, Value]]:
    """Key-value pairs of a mapping or an iterable of pairs."""
    if isinstance(source, DictV):
        return [(k, realize(cap, x)) for k, x in source.items.items()]
    if isinstance(source, ObjectV) and hasattr(source.cls, "keys"):
        keys = list(iterate(cap, cap.call(cap.getattr(source, "keys"), [])))
        return [(hashable(cap, k), cap.call(cap.getattr(source, "__getitem__"), [k])) for k in keys]
    found = []
    for n, item in enumerate(iterate(cap, source)):
        parts = _pair(cap, n, item)
        found.append((hashable(cap, parts[0]), parts[1]))
    return found


def _pair(cap: Capture, n: int, item: Value) -> list[Value]:
    """Element `n` of what a dict is made of: a key and its value."""
    if isinstance(item, Const) and not hasattr(type(item.value), "__iter__"):
        raise raised(TypeError, f"cannot convert dictionary update sequence element #{n} to a sequence")
    parts = list(iterate(cap, item))
    if len(parts) != 2:
        raise raised(ValueError, f"dictionary update sequence element #{n} has length {len(parts)}; 2 is required")
    return parts


def _update(cap: Capture, v: DictV, *sources: Value, **kwargs: Value) -> None:
    mutating(cap, v)
    for source in sources:
        v.items.update(pairs(cap, source))
    v.items.update(kwargs)


def _dict_copy(cap: Capture, v: DictV) -> Value:
    return DictV(dict(v.items), v.cls, factory=v.factory)


def _move_to_end(cap: Capture, v: DictV, key: Value, last: Value = Const(True)) -> None:
    mutating(cap, v)
    name = hashable(cap, key)
    moved = {name: v.items.pop(name)}
    v.items = {**v.items, **moved} if as_python(last) else {**moved, **v.items}


def _add(cap: Capture, v: SetV, x: Value) -> None:
    mutating(cap, v)
    v.items.add(hashable(cap, x))


def _discard(cap: Capture, v: SetV, x: Value) -> None:
    mutating(cap, v)
    v.items.discard(hashable(cap, x))


def _set_update(cap: Capture, v: SetV, *others: Value) -> None:
    mutating(cap, v)
    for other in others:
        v.items.update(elements_of(cap, other))


def elements_of(cap: Capture, other: Value) -> Any:
    """Another set's elements, or those of any iterable, as keys in their order."""
    return other.items if isinstance(other, (SetV, DictV)) else [hashable(cap, x) for x in iterate(cap, other)]


def _set_method(name: str) -> Any:
    def row(cap: Capture, v: SetV, *others: Value) -> Value:
        found = getattr(v.items, name)(*(elements_of(cap, o) for o in others))
        return Const(found) if isinstance(found, bool) else SetV(found, v.cls)
    return row


def _set_change(name: str) -> Any:
    def row(cap: Capture, v: SetV, *others: Value) -> None:
        mutating(cap, v)
        getattr(v.items, name)(*(elements_of(cap, o) for o in others))
    return row


def _set_pop(cap: Capture, v: SetV) -> Value:
    if not v.items:
        raise raised(KeyError, "pop from an empty set")
    mutating(cap, v)
    return key_value(cap, v.items.pop())


def _set_remove(cap: Capture, v: SetV, x: Value) -> None:
    key = hashable(cap, x)
    if key not in v.items:
        raise missing_key(x)
    mutating(cap, v)
    v.items.remove(key)


def missing_key(key: Value) -> Raised:
    """The KeyError of a key that is not there."""
    return Raised(ObjectV(KeyError, ctor=(key,), attrs={"args": TupleV([key])}))


def _rotate(cap: Capture, v: ListV, n: Value = Const(1)) -> None:
    mutating(cap, v)
    turned = collections.deque(v.items)
    turned.rotate(_index(cap, n))
    v.items[:] = turned


def _extendleft(cap: Capture, v: ListV, xs: Value) -> None:
    for x in list(iterate(cap, xs)):
        _appendleft(cap, v, x)


_SEQUENCE = {"index": _find, "count": _count}
METHODS: dict[type, dict[str, Any]] = {
    TupleV: _SEQUENCE,
    ListV: {**_SEQUENCE, "append": _append, "pop": _pop, "insert": _insert, "remove": _remove, "reverse": _reverse,
            "clear": _clear, "sort": _sort, "extend": _extend, "appendleft": _appendleft,
            "rotate": _rotate, "extendleft": _extendleft,
            "popleft": lambda cap, v: _pop(cap, v, Const(0)),
            "copy": lambda cap, v: ListV(list(items_of(cap, v)), v.cls, extra=v.extra)},
    ViewV: {"isdisjoint": lambda cap, v, o: Const((_as_set(cap, v) or set()).isdisjoint(elements_of(cap, o)))},
    DictV: {"get": _get, "setdefault": _setdefault, "pop": _dict_pop, "popitem": _popitem, "update": _update,
            "clear": _clear, "copy": _dict_copy, "move_to_end": _move_to_end,
            **{k: (lambda kind: lambda cap, v: ViewV(v, kind))(k) for k in ("keys", "values", "items")}},
    SetV: {"add": _add, "discard": _discard, "update": _set_update, "clear": _clear,
           "pop": _set_pop, "remove": _set_remove,
           "copy": lambda cap, v: v if v.cls is frozenset else SetV(set(v.items), v.cls),
           **{n: _set_change(n) for n in ("intersection_update", "difference_update",
                                          "symmetric_difference_update")},
           **{n: _set_method(n) for n in ("union", "intersection", "difference", "symmetric_difference",
                                          "issubset", "issuperset", "isdisjoint")}},
}
_OPERATORS: dict[str, Any] = {
    "__getitem__": lambda cap, v, k: CONTAINER_OPS["getitem", type(v)](cap, v, k),
    "__setitem__": setitem, "__delitem__": delitem,
    "__contains__": lambda cap, v, x: Const(contains(cap, v, x)),
    "__len__": lambda cap, v: Const(len(v.items)),
    "__iter__": lambda cap, v: get_iter(cap, v),
    "__eq__": lambda cap, a, b: Const(equal(cap, a, b)),
    "__ne__": lambda cap, a, b: Const(not equal(cap, a, b)),
    "__add__": lambda cap, a, b: CONTAINER_OPS["add", type(a)](cap, a, b),
}


signature = functools.cache(inspect.signature)


def call_method(cap: Capture, value: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    row = METHODS.get(type(value), {}).get(name) or _OPERATORS.get(name)
    if row is None:
        raise Break("call", f"{_kind(value)}.{name}")
    try:
        signature(row).bind(cap, value, *args, **kwargs)
    except TypeError:
        raise Break("call", f"{_kind(value)}.{name} with these arguments") from None
    result = row(cap, value, *args, **kwargs)
    return Const(None) if result is None else result


