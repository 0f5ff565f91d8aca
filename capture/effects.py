"""Side effects: what the captured code changed outside itself, to be replayed after the Graph.

While capturing, nothing real is changed. A Value that stands for an existing object notes its
changes (`dirty`, `written`); `global_writes` holds stores to module globals. At the end of the
capture `changed(cap)` lists the Values whose real objects must be brought up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynacomp.capture.errors import Break, Restart
from dynacomp.capture.machine import Capture
from dynacomp.capture.values import DELETED, ArrayV, CellV, DictV, ListV, ObjectV, SetV, Value


def mutating(cap: Capture, value: Value) -> None:
    """Must be called before a Value is changed in place."""
    if cap.bodies and (value.serial < cap.bodies[-1].serial or getattr(value, "real", None) is not None):
        raise Break("effect_in_body", "a change to an outer object inside a transformed function")
    if isinstance(value, (ListV, DictV, SetV, CellV)):
        value.dirty = True
    if isinstance(value, SetV) and value.items is value.real:
        value.items = set(value.items)
    if isinstance(value, DictV) and value.owner is not None:
        value.owner.written.update(value.items)


def write_global(cap: Capture, table: dict[str, Any], source: Any, name: str, value: Any) -> None:
    if cap.bodies:
        raise Break("effect_in_body", f"a store to global {name!r} inside a transformed function")
    seen = cap.objects.get(id(table))
    if isinstance(seen, DictV):  # the program also holds these globals as a dict
        seen.dirty = True
        seen.items.pop(name, None) if value is None else seen.items.__setitem__(name, value)
        return
    cap.global_writes[id(table), name] = (table, source, value)
    if value is None and name not in table:
        del cap.global_writes[id(table), name]  # made and deleted again: nothing to do


def _note_dict_changes(value: ObjectV) -> None:
    """What a program changed through `vars(obj)` counts as written (or deleted) attributes."""
    if value.view is not None and value.view.dirty:
        value.written.update(value.view.items)
        for name in value.written - set(value.view.items):
            value.attrs[name] = DELETED


def settle(cap: Capture) -> list[Value]:
    """The changed Values, with guards that no two inputs which might be one object are: a change to
    one would then be a change to the other."""
    found = list(changed(cap))
    for kind in {type(v.real) for v in found if not isinstance(v, CellV)}:  # type: ignore[attr-defined]
        sources = tuple(v.source for v in cap.objects.values()
                        if v.source is not None and type(getattr(v, "real", None)) is kind)
        if len(sources) > 1:
            cap.guards.add("all_distinct", None, sources)
    return found


def changed(cap: Capture) -> Iterator[Value]:
    """Existing objects that differ now from what they were, in order of discovery."""
    for value in list(cap.objects.values()):
        if isinstance(value, ObjectV):
            _note_dict_changes(value)
            if value.written and value.real is not None:
                yield value
        elif getattr(value, "dirty", False) and getattr(value, "real", None) is not None:
            yield value


def certain(cap: Capture, value: ArrayV) -> None:
    """Must be called before an array is handed to Python: which object it is must be known, so that a
    `cond` that may choose an input goes back to being an `if`."""
    if value.uncertain:
        cap.lessons.plain_ifs = True
        raise Restart
