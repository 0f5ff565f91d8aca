"""Numbers that a call changes where it finds them are inputs from the first call on: the next one finds others.

    self.steps += 1                 # an attribute, an item of a dict or a list, a variable around, a global
    stats["seen"] += x.shape[0]
    return state.replace(params=params, step=state.step + 1)        # what comes back as one of those that were given

As constants they would cost a second capture for certain. `note` compares what the program has stored, or gives back
in a new object like a given one, with what was taken as a constant at the same place, and has the capture begin again
where a number differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.base.key_order import unordered
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import is_exactly
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV
from dynacomp.capture.values.questions import is_dict, is_graph_number, is_object, is_tuple, is_value
from dynacomp.capture.values.value import Value, children, type_of
from dynacomp.capture.wrapping.builder import is_fixed
from dynacomp.capture.wrapping.builtin_subclasses import is_bare_named_tuple


@dataclass(frozen=True)
class Counted(S.Source):
    """A question: whether numbers may be inputs because the call changes them."""


def note(cap: Capture, changed: list[Value], result: Value | None) -> None:
    """Restart where a number that was a constant has been changed for the next call, by its place's name."""
    taken = {place: was for place, was in cap.numbers.scalars.items()
             if type(was) in (int, float) and not is_fixed(cap, place)}
    if not taken:
        return
    was = {repr(place): number for place, number in taken.items()}
    stored = {name for name, now in _stored(cap, changed) if name in was and _differs(now, was[name])}
    given = set() if cap.lessons.given_back is False else _given_back(cap, taken, result)
    if not cap.lessons.counted.issuperset(stored | given) and cap.root.policy.changes_often(Counted()):
        cap.lessons.counted.update(stored)
        if not cap.lessons.counted.issuperset(given):
            cap.lessons.given_back = cap.lessons.kept()
            cap.lessons.counted.update(given)
        raise Restart


def _differs(now: Any, was: Any) -> bool:
    """Whether what is stored is another number of the same type; no int that the Graph computes: on one side of a
    condition, mostly, which a constant passes."""
    return is_value(now) and type_of(now) is type(was) and not (is_graph_number(now) and type(was) is int) and not (
        is_exactly(now, type(was)) and repr(now.value) == repr(was))


def _stored(cap: Capture, changed: list[Value]) -> Iterator[tuple[str, Any]]:
    """What the program has stored, by the names of the places."""
    for v in changed:
        row = kind(v).stored
        if row is not None and v.source is not None:
            yield from row(v)
    for (_, name), (_, source, value) in cap.effects.globals.items():
        yield f"G[{name!r}]" if source is None else f"{source!r}[{name!r}]", value


def _given_back(cap: Capture, taken: dict[S.Source, Any], result: Value | None) -> set[str]:
    """The names of places where objects that were given have a number, and all new ones like them in the result have
    other numbers than any of those: two layers of a class are alike, too."""
    places: dict[Any, list[Any]] = {}
    for place in taken:
        if type(place) in NAMES:
            places.setdefault(getattr(place, NAMES[type(place)]), []).append(place)
    others: dict[str, bool] = {}
    for v in _new(result) if places else ():
        held = _held(v)
        for name in places.keys() & held.keys():
            alike = [place for place in places[name] if _is_alike(cap, place.base, v)]
            differs = all(_differs(held[name], taken[place]) for place in alike)
            others.update({repr(place): differs and others.get(repr(place), True) for place in alike})
    return {name for name, differs in others.items() if differs}


def _new(result: Any) -> Iterator[Value]:
    """The objects and containers in a result that the call has made."""
    todo, seen = [result], set[int]()
    while todo:
        v = todo.pop()
        if is_value(v) and v.source is None and id(v) not in seen:
            seen.add(id(v))
            yield v
            todo += _held(v).values() or children(v)


NAMES = {S.Attr: "name", S.Slot: "name", S.Key: "key", S.Item: "index"}  # what places in a container are called


def _held(v: Value) -> dict[Any, Any]:
    """What a new object, named tuple or dict with names holds, by its names; nothing of others."""
    if is_object(v):
        return {name: x for name, x in v.attrs.items() if x is not DELETED}
    if is_dict(v):
        return dict(zip(unordered(v.items), dict.values(v.items)))
    return dict(enumerate(v.items)) if is_tuple(v) and is_bare_named_tuple(v.cls) else {}


def _is_alike(cap: Capture, place: S.Source, new: Any) -> bool:
    """Whether what was given there is of the class of a new object; a dict has the same keys, too."""
    if not is_dict(new):
        return cap.guards.holds("is_type", place, new.cls)
    given = next((v for v in cap.known.objects.values() if is_dict(v) and v.source == place), None)
    return given is not None and set(unordered(given.items)) == set(unordered(new.items))


def _attributes(v: ObjectV) -> Iterator[tuple[str, Any]]:
    return ((f"{v.source!r}.{name}", v.attrs.get(name)) for name in v.written)


def _entries(v: DictV) -> Iterator[tuple[str, Any]]:
    """Those that are known: to go through all would be a question that the program has not asked."""
    return ((f"{v.source!r}[{key!r}]", dict.get(v.items, key)) for key in unordered(v.items))


def _items(v: ListV) -> Iterator[tuple[str, Any]]:
    known = v.items if v.unseen is None and v.front is None else ()
    return ((f"{v.source!r}[{i}]", x) for i, x in enumerate(known))


def _content(v: CellV) -> Iterator[tuple[str, Any]]:
    """A cell of the frame's own function, or one found elsewhere: in the closure of a function from around."""
    own = isinstance(v.source, S.ClosureCell)
    yield f"C[{v.source.name!r}]" if own else f"{v.source!r}.cell_contents", v.content  # type: ignore[union-attr]


define(ObjectV, Kind(stored=_attributes))
define(DictV, Kind(stored=_entries))
define(ListV, Kind(stored=_items))
define(CellV, Kind(stored=_content))
