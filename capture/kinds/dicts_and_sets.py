"""Dicts, their views, and sets: subscripts, operators and methods on their Values.

Rows are `row(cap, value, *args, **kwargs)`; `METHODS` and `OPERATORS` are what `containers` knows of.
Keys are constants, or Values that hash by identity or by a `HashedV` (see `keys`).
"""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

from dynacomp.capture._native import iterated
from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.errors import Break
from dynacomp.capture.kinds import changing_members, given_items
from dynacomp.capture.kinds.changing_keys import copied, merged, placed, put
from dynacomp.capture.kinds.iteration import elements, iterate, key_value
from dynacomp.capture.kinds.keys import each_pair, hashable, members_of, missing_key, raised
from dynacomp.capture.numbers import host_functions
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating, removing
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.containers import DictV, SetV, TupleV, ViewV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_dict, is_set, is_tuple
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.builder import realize
from dynacomp.capture.wrapping.keyed_tables import as_constant
from dynacomp.capture.wrapping.partial_tables import Entries, held_as


def getitem(cap: Capture, table: DictV, key: Value) -> Value:
    given = given_items.item_at(cap, table, key) or given_items.chosen_by(
        cap, table, given_items.place(cap, table, key))
    if given is not None:
        return given
    name = placed(cap, table, key)
    if name in table.items:
        item = table.items[name] = realize(cap, table.items[name])
        return item
    if table.factory is not None and not stands_for(table.factory, None):
        mutating(cap, table)
        made = table.items[name] = cap.call(table.factory, [])
        return made
    raise missing_key(key)


def _merge(cap: Capture, a: DictV, b: Value) -> Any:
    if not is_dict(b):
        return NotImplemented
    left, right = _behind(a), _behind(b)
    cls, factory = right if left[0] is dict and right[0].__ror__ is not dict.__ror__ else left
    return DictV(merged(cap, a.items, b.items), cls, factory=factory)


def _behind(table: DictV) -> tuple[Any, Any]:
    """The class and the factory of a copy: a mappingproxy's are those of the dict that it shows."""
    if table.cls is not types.MappingProxyType:
        return table.cls, table.factory
    return _behind(table.shows) if table.shows is not None else (type(iterated(table.real)), None)


def _merge_in_place(cap: Capture, a: DictV, b: Value) -> Any:
    mutating(cap, a)
    _update(cap, a, b)
    return a


def _as_set(cap: Capture, v: Value) -> set[Any] | None:
    """The elements of a set, or of a dict's keys or items; None for other Values."""
    shown = _shown(v)
    if shown is None or isinstance(shown, (set, frozenset)):
        return shown  # type: ignore[return-value]
    return set(shown) if _are_keys(v) else {hashable(cap, x) for x in elements(cap, v)}  # type: ignore[arg-type]


def _shown(v: Value) -> Any:
    """The set, or the table of the view, that an operator of sets works on; None of other Values."""
    row = kind(v).shown
    return None if row is None else row(v)


def _are_keys(view: Any) -> bool:
    """Whether a view's elements, or a set's, are keys and not pairs."""
    return getattr(view, "kind", "keys") == "keys"


define(SetV, Kind(shown=lambda v: v.members))
define(ViewV, Kind(shown=lambda v: None if v.kind == "values" else v.table.items))


def _set_op(op: Any) -> Any:
    def row(cap: Capture, a: Any, b: Value) -> Any:
        left, right = _as_set(cap, a), _as_set(cap, b)
        if left is None or (right is None and not isinstance(a, ViewV)):
            return NotImplemented
        found = op(left, {hashable(cap, x) for x in iterate(cap, b)} if right is None else right)
        return Const(found) if isinstance(found, bool) else SetV(found, getattr(a, "cls", set))
    return row


def _set_compare(op: Any) -> Any:
    def row(cap: Capture, a: Any, b: Value) -> Any:
        left, right = _as_set(cap, a), _as_set(cap, b)
        return NotImplemented if left is None or right is None else Const(op(left, right))
    return row


def view_contains(cap: Capture, view: Any, item: Value) -> bool:
    """`item in view` of a dict's keys or items (`item in set`): values are compared, never hashed."""
    shown = _shown(view)
    if _are_keys(view):
        return hashable(cap, item) in shown
    pair: list[Value] = cap.items(item) if is_tuple(item) else []
    name = hashable(cap, pair[0]) if len(pair) == 2 else None
    return len(pair) == 2 and name in shown and equal(cap, realize(cap, shown[name]), pair[1])


def _view_compare(op: Any) -> Any:
    """Views compare as CPython's do: by their lengths, then by whether one holds all that the other has."""
    def row(cap: Capture, a: Any, b: Any) -> Any:
        if _shown(a) is None or _shown(b) is None:
            return NotImplemented
        sizes = [len(_shown(v)) for v in (a, b)]
        small, big = (b, a) if op in (operator.gt, operator.ge) else (a, b)
        fits = operator.eq(*sizes) if op is operator.ne else op(*sizes)
        held = fits and all(view_contains(cap, big, x) for x in iterate(cap, small))
        return Const(held == (op is not operator.ne))
    return row


def _change_in_place(op: Any, by_elements: Any) -> Any:
    def row(cap: Capture, a: SetV, b: Value) -> Any:
        if not is_set(b) or a.cls is not set:
            return _set_op(op)(cap, a, b)  # a view's operator, which makes a new set
        by_elements(cap, a, b)
        return a
    return row


SET_OPS = (operator.or_, operator.and_, operator.sub, operator.xor)
SET_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def contains(cap: Capture, table: DictV, key: Value) -> bool:
    at = given_items.place(cap, table, key)
    if at is not None:
        return host_functions.within(cap, at, len(table.items))
    there = given_items.is_there(cap, table, key)
    return placed(cap, table, key) in table.items if there is None else truth(cap, there)


def _get(cap: Capture, v: DictV, key: Value, default: Value = Const(None)) -> Value:
    there = given_items.is_there(cap, v, key)
    if there is not None and not truth(cap, there):
        return default
    at = given_items.place(cap, v, key)
    if at is not None and not host_functions.within(cap, at, len(v.items)):
        return default
    given = given_items.item_at(cap, v, key) or given_items.chosen_by(cap, v, at)
    if given is not None:
        return given
    name = placed(cap, v, key)
    return realize(cap, v.items[name]) if name in v.items else default


def _setdefault(cap: Capture, v: DictV, key: Value, default: Value = Const(None)) -> Value:
    name = placed(cap, v, key)
    if name not in v.items:
        mutating(cap, v)
        v.items[name] = default
    v.items[name] = realize(cap, v.items[name])
    return v.items[name]


def _dict_pop(cap: Capture, v: DictV, key: Value, *default: Value) -> Value:
    name = placed(cap, v, key)
    if name not in v.items:
        if default:
            return default[0]
        raise missing_key(key)
    removing(cap, v)
    return realize(cap, v.items.pop(name))


def _popitem(cap: Capture, v: DictV, last: Value = Const(True)) -> Value:
    first = v.items.first() if isinstance(v.items, Entries) and not truth(cap, last) else None
    if first is not None:
        name = realize(cap, first)
        return TupleV([name, _dict_pop(cap, v, name)])
    if not v.items:
        raise raised(KeyError, "dictionary is empty" if v.cls is collections.OrderedDict else
                     "popitem(): dictionary is empty")
    removing(cap, v)
    key = next(reversed(v.items) if truth(cap, last) else iter(v.items))
    item = v.items.pop(key)
    return TupleV([key_value(cap, key), realize(cap, item)])


def _update(cap: Capture, v: DictV, *sources: Value, **kwargs: Value) -> None:
    mutating(cap, v)
    if len(sources) > 1:
        raise raised(TypeError, f"update expected at most 1 argument, got {len(sources)}")
    for source in sources:
        for key, value in each_pair(cap, source):
            put(cap, v, key, value)
    v.items.update(kwargs)


def _dict_copy(cap: Capture, v: DictV) -> Value:
    cls, factory = _behind(v)
    return DictV(copied(v.items), cls, factory=factory)


def _move_to_end(cap: Capture, v: DictV, key: Value, last: Value = Const(True)) -> None:
    name = placed(cap, v, key)
    if name not in v.items:
        raise missing_key(key)
    removing(cap, v)
    if isinstance(v.items, Entries) and not v.items.whole:
        if as_python(last):
            v.items.move(name)
            return
        name = as_constant(name)
    name = held_as(name, v.items)
    moved = {name: v.items.pop(name)}
    v.items = {**v.items, **moved} if as_python(last) else {**moved, **v.items}


def _set_method(name: str) -> Any:
    def row(cap: Capture, v: SetV, *others: Value) -> Value:
        found = getattr(v.members, name)(*(members_of(cap, o) for o in others))
        return Const(found) if isinstance(found, bool) else SetV(found, v.cls)
    return row


def _set_pop(cap: Capture, v: SetV) -> Value:
    if not v.members:
        raise raised(KeyError, "pop from an empty set")
    if v.real is not None:
        raise Break("call", "pop() of a set older than the call: what was done to it decides which element goes")
    mutating(cap, v)
    return key_value(cap, v.items.pop())


def _clear(cap: Capture, v: Any) -> None:
    removing(cap, v)
    v.items.clear()


METHODS: dict[type, dict[str, Any]] = {
    ViewV: {"isdisjoint": lambda cap, v, o: Const((_as_set(cap, v) or set()).isdisjoint(members_of(cap, o)))},
    DictV: {"get": _get, "setdefault": _setdefault, "pop": _dict_pop, "popitem": _popitem, "update": _update,
            "clear": _clear, "copy": _dict_copy, "move_to_end": _move_to_end,
            **{k: (lambda kind: lambda cap, v: ViewV(v, kind))(k) for k in ("keys", "values", "items")}},
    SetV: {**{m.__name__: m for m in (changing_members.add, changing_members.discard, changing_members.remove,
                                      changing_members.clear, changing_members.update,
                                      changing_members.intersection_update, changing_members.difference_update,
                                      changing_members.symmetric_difference_update)}, "pop": _set_pop,
           "copy": lambda cap, v: v if v.cls is frozenset else SetV(set(v.members), v.cls),
           **{n: _set_method(n) for n in ("union", "intersection", "difference", "symmetric_difference",
                                          "issubset", "issuperset", "isdisjoint")}},
}
OPERATORS: dict[tuple[str, type], Any] = {
    ("or_", DictV): _merge, ("ior", DictV): _merge_in_place,
    **{(op.__name__, kind): _set_op(op) for op in SET_OPS for kind in (SetV, ViewV)},
    **{(op.__name__, SetV): _set_compare(op) for op in SET_COMPARISONS},
    **{(op.__name__, ViewV): _view_compare(op) for op in SET_COMPARISONS},
    **{(f"i{op.__name__.strip('_')}", SetV): _change_in_place(op, by) for op, by in zip(SET_OPS, (
        changing_members.update, changing_members.intersection_update, changing_members.difference_update,
        changing_members.symmetric_difference_update))},
}
