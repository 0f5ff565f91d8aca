"""Changes to what existed before the call: noted while capturing, replayed after the Graph.

A Value that stands for an existing object notes its changes (`dirty`, `written`), `effects` has stores to names. At
the end of the capture `changed(cap)` lists the Values whose real objects must be brought up to date.
"""

from __future__ import annotations

import bisect
import types
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from dynacomp.capture.base.classes import has_dict, own_dict
from dynacomp.capture.base.errors import Break, Restart, Unbuildable
from dynacomp.capture.base.key_order import is_arranged, is_unordered, unordered
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.twins import told_apart
from dynacomp.capture.symbolic.undo_log import save
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.containers import DictV, SetV, as_grown
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_cell, is_dict, is_function, is_lazy, is_object, is_value
from dynacomp.capture.values.sources import belongs_to_call
from dynacomp.capture.values.value import MutableV, Value, next_serial


def mutating(cap: Capture, value: Value) -> None:
    """Must be called before a Value is changed in place."""
    if getattr(value, "cls", None) is types.MappingProxyType:
        raise Break("store", "a change to a mappingproxy")  # which Python refuses, in words for each operation
    told_apart(cap, value)
    if cap.dropping.pending:
        OPERATIONS.changing(cap, value)
    whose = getattr(value, "owner", None) or value  # a `__dict__` is as old as its object
    if getattr(value, "of_row", False) or cap.known.rows and is_one_of(whose, cap.known.rows):
        leaving_apart(cap)
    if id(whose) in cap.libraries.hosted:
        raise Break("body", "a change to what a function holds that a library runs in a context of its own")
    _note(cap, whose)
    for watch in cap.effects.watches:
        watch.note(whose)
    if cap.bodies:
        _change_from(cap, keeping(cap, value), OUTER, whose)
    note_changed(value)


def note_changed(value: Value) -> None:
    """Has a Value know that it is no longer what guards find in its place."""
    changing = kind(value).changing
    if changing is not None:
        changing(value)


def is_one_of(value: Value, ids: Container[int]) -> bool:
    """Whether that is an existing object with one of these ids, or its attributes are."""
    real = getattr(value, "real", None)
    return real is not None and (id(real) in ids or has_dict(type(real)) and id(own_dict(real)) in ids)


def keeping(cap: Capture, value: Value) -> list[Any]:
    """Has the sides that run keep how an older object is now; the bodies younger than it that are no sides."""
    whose = getattr(value, "owner", None) or value
    existed = getattr(whose, "real", None) is not None
    younger = [b for b in cap.bodies if existed or whose.serial < b.serial]
    for side in [b for b in younger if b.is_side]:
        save(side, value)
    return [b for b in younger if not b.is_side]


def _changing(v: Any) -> None:
    v.dirty = True


def _changing_set(v: SetV) -> None:
    v.dirty = True
    v.log = None  # who adds to it or takes out notes that after this
    if v.parts is None and v.members is v.real:
        v.items = as_grown(v.members)


def _changing_dict(v: DictV) -> None:
    v.dirty = True
    if is_object(v.owner):
        v.owner.written.update(unordered(v.items))


define(MutableV, Kind(changing=_changing))
define(SetV, Kind(changing=_changing_set))
define(DictV, Kind(changing=_changing_dict))


def _note(cap: Capture, whose: Any) -> None:
    cap.effects.mutated.append(whose)
    cap.effects.serials.append(next_serial())


def removing(cap: Capture, value: Value) -> None:
    """Must be called before an entry is taken out of a Value in place."""
    mutating(cap, value)
    if is_dict(value):
        value.lost = True


def _change_from(cap: Capture, bodies: list[Any], what: str, value: Any = None) -> None:
    """Notes that these bodies change what is older than they, where that happens as often in eager JAX; elsewhere it
    may be as it was in the end (see `refuse_lasting`)."""
    for body in bodies:
        watched = not body.as_often and body.watch is not None and body.watch.before.get(value) is not None
        if not watched and (cap.lessons.pure_bodies or not body.as_often):
            raise Break("effect_in_body", f"{what} inside a transformed function")
        body.changes = body.changes or not watched


OUTER = "a change to an outer object"


def refuse_lasting(body: Any) -> None:
    """Breaks where a body that JAX keeps leaves something older than itself otherwise than it was. What it puts on a
    stack and takes off again nobody sees."""
    if body.watch is not None and body.watch.changed:
        raise Break("effect_in_body", f"{OUTER} inside a transformed function")


def changing_outside(cap: Capture, what: str) -> None:
    """Must be called before something is changed that no Value stands for: a class, a module."""
    _note(cap, None)
    for watch in cap.effects.watches:
        watch.outside = True
    _change_from(cap, cap.bodies, what)


def heard_outside(cap: Capture, what: str) -> None:
    """Must be called before the program is heard by somebody outside. What sides say `branches` takes back."""
    _change_from(cap, [b for b in cap.bodies if not b.is_side], what)


def changed_outside(cap: Capture, since: int = 0) -> bool:
    """Whether something that existed before the call has changed, after so many changes."""
    return any(v is None or getattr(v, "real", None) is not None for v in cap.effects.mutated[since:])


def may_see(cap: Capture, value: Value, since: int) -> bool:
    """Whether `value`, when it is called, may read something that has changed after so many changes: what has existed
    before the call, or is in reach of `value` or of something that the program changed and that existed."""
    if changed_outside(cap, since):
        return True
    return _reach(cap, [value, *changed(cap), *cap.effects.stored()], since)


def differs_since(cap: Capture, value: Value) -> bool:
    """Whether something that `value` holds has changed since `value` was made."""
    since = bisect.bisect(cap.effects.serials, value.serial)
    return since < len(cap.effects.serials) and _reach(cap, list(_parts(value)), since)


def _reach(cap: Capture, todo: list[Any], since: int) -> bool:
    """Whether some of the first leads to a Value that has changed after so many changes."""
    ids = {id(v) for v in cap.effects.mutated[since:]}
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        at = _met(cap, at)
        if id(at) in ids:
            return True
        if id(at) not in seen:
            seen.add(id(at))
            todo.extend(_parts(at))
    return False


def _met(cap: Capture, at: Any) -> Any:
    """The Value of an element, if something has looked at the object."""
    return cap.known.objects.get(id(at.obj)) if is_lazy(at) else at


def _parts(at: Any) -> Iterable[Any]:
    if is_value(at):
        return [v for v in vars(at).values() if isinstance(v, (Value, tuple, list, dict))]
    return at.values() if type(at) is dict else at if type(at) in (tuple, list) else ()


def write_global(cap: Capture, table: dict[str, Any], source: Any, name: str, value: Any) -> None:
    """Notes a store to a global, or its deletion (`value` None), which happens after the Graph."""
    changing_outside(cap, f"a store to global {name!r}")
    if is_pure_module(table.get("__name__")):  # its own functions must see it at once
        raise Break("store", f"a store to {name!r} of the library {table['__name__']}")
    seen = cap.known.objects.get(id(table))
    if is_dict(seen):  # the program also holds these globals as a dict
        seen.dirty, seen.lost = True, seen.lost or value is None
        seen.items.pop(name, None) if value is None else seen.items.__setitem__(name, value)
        return
    cap.effects.globals[id(table), name] = (table, source, value)
    if value is None and name not in table:
        del cap.effects.globals[id(table), name]  # made and deleted again: nothing to do


def _note_dict_changes(value: ObjectV) -> None:
    """What a program changed through `vars(obj)` counts as written (or deleted) attributes."""
    view = value.view
    if view is None or not view.dirty:
        return
    there = unordered(view.items)
    value.written.update(there)
    value.arranged = tuple(there) if is_arranged(view.items) else None
    if value.arranged is not None:
        value.moved = set()
    elif is_unordered(view.items):  # what went and came back stands behind what did not go, however that stands
        value.moved = view.items.gone & set(there)
    else:
        value.moved = set(_out_of_place(own_dict(value.real), there))


def _out_of_place(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """The keys of a dict that must be put in again to come where they are now: the first that had others behind it
    before, and all that follow, for it comes last."""
    places = {name: n for n, name in enumerate(before)}
    last, moved = -1, False
    for name in now:
        at = places.get(name, len(places))
        moved = moved or at < last
        if moved and name in places:
            yield name
        last = max(last, at)


SETTLED: list[Callable[[Capture], None]] = []  # what else adds its guards when a capture ends


def settle(cap: Capture) -> list[Value]:
    """The changed Values, with guards that none of them is another input which might be the same object, nor has one
    dictionary of attributes with it: a change to one would then be a change to the other. What is only read may be."""
    found = list(changed(cap))
    for last in SETTLED:
        last(cap)
    inputs = [v for v in (*cap.known.objects.values(), *cap.known.twins.values()) if v.source is not None]
    ids = set(map(id, found))
    for kept in dict.fromkeys(_kept_in(type(v.real)) for v in found if not is_cell(v)):  # type: ignore[attr-defined]
        alike = [v for v in inputs if _kept_in(type(getattr(v, "real", None))) is kept]
        is_changed = [bool(ids & {id(v), id(getattr(v, "payload", v))}) for v in alike]
        sources = tuple(v.source for v, is_one in zip(alike, is_changed) if is_one)
        others = tuple(v.source for v, is_one in zip(alike, is_changed) if not is_one)
        if sources and len(alike) > 1:
            cap.guards.add("all_distinct", None, sources, others)
    return found


def _kept_in(cls: type) -> type:
    """One class for all whose content may be the same object's: a dict, and instances, which keep theirs in one."""
    return dict if issubclass(cls, dict) or has_dict(cls) else cls


def changed(cap: Capture) -> Iterator[Value]:
    """Existing objects that differ now from what they were, in order of discovery."""
    for value in list(cap.known.objects.values()):
        row = kind(value).changed
        if row is not None:
            yield from row(value)


def _changed(v: Any) -> Iterator[Value]:
    if v.dirty and getattr(v, "real", None) is not None:
        yield v


def _changed_object(v: ObjectV) -> Iterator[Value]:
    _note_dict_changes(v)
    if v.written and v.real is not None:
        yield v
    if v.unread is None and getattr(v.payload, "dirty", False) and v.real is not None:
        yield v.payload


define(MutableV, Kind(changed=_changed))
define(ObjectV, Kind(changed=_changed_object))


def waits_for_effects(cap: Capture, value: Value) -> bool:
    """Whether what makes `value` may look at an object that has changed: side effects happen after that."""
    changes = {id(v): v for v in changed(cap)}
    todo, seen, runs = [value], set(), False
    while todo and (changes or cap.effects.globals):
        at: Any = _met(cap, todo.pop())
        if id(at) in changes:
            return True
        runs = runs or is_function(at)
        if id(at) not in seen and isinstance(at, (Value, list, tuple, dict)):
            seen.add(id(at))
            inside: Any = vars(at) if is_value(at) else at
            todo.extend(inside.values() if isinstance(inside, dict) else inside)
    found = (getattr(v, "source", None) for v in changes.values())
    return runs and (bool(cap.effects.globals) or not all(s is not None and belongs_to_call(s) for s in found))


def certain(cap: Capture, value: ArrayV, another: bool = False) -> None:
    """Must be called before a program asks which object an array is: a `cond` that may choose an input, or the
    array that it is compared with (`another`), goes back to being an `if`. Where that was no `cond`, it is a row of a
    list, whose items are then looked at one by one. What is left was chosen in a loop, which Python asks when it ends.
    """
    if value.origin is not None or another and value.joined:
        if cap.lessons.items_apart and cap.lessons.plain_ifs:
            raise Break("identity", "which array a loop chose, that has as many rounds as a size says")
        cap.lessons.items_apart = cap.lessons.plain_ifs
        cap.lessons.plain_ifs = True
        raise Restart


def leaving_apart(cap: Capture) -> None:
    """Must be called where Python will have items of a list that the call was given, which are objects (not other ones
    like them), or where a program asks which one an item is. The next attempt looks at all items one by one."""
    cap.lessons.items_apart = True
    raise Restart


def leaving(cap: Capture, value: ArrayV | NumberV) -> None:
    """Must be called for arrays and numbers that Python will have after the Graph: a transformed function may have put
    its own into an outer object, which eager JAX allows (and calls a leaked tracer when it is used)."""
    if value.node in cap.graph.homes:
        cap.lessons.pure_bodies = True
        raise Restart
    if getattr(value, "attrs", None):
        raise Unbuildable(value, "an array on which the program has noted something")
