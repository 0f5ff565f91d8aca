"""Numbers that a call changes where it finds them are inputs from the first call on: the next one finds others.

    self.steps += 1                 # an attribute, an item of a dict or a list, a variable around, a global
    stats["seen"] += x.shape[0]

As constants they would cost a second capture for certain. `note` compares what the program has stored with what was
taken as a constant at the same place, and has the capture begin again where a number differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.attribute_order import unordered
from dynacomp.capture.base.errors import Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import is_exactly
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.questions import is_graph_number, is_value
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping.builder import is_fixed


@dataclass(frozen=True)
class Counted(S.Source):
    """A question: whether numbers may be inputs because the call changes them."""


def note(cap: Capture, changed: list[Value]) -> None:
    """Restart where a number that was a constant has been changed for the next call, by its place's name."""
    taken = {repr(place): was for place, was in cap.numbers.scalars.items()
             if type(was) in (int, float) and not is_fixed(cap, place)}
    stored = _stored(cap, changed) if taken else ()
    found = {name for name, now in stored if name in taken and _differs(now, taken[name])}
    if not cap.lessons.counted.issuperset(found) and cap.root.policy.changes_often(Counted()):
        cap.lessons.counted.update(found)
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
