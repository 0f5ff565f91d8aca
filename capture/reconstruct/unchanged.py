"""What a call leaves as it was, though the program stored into it: that needs no side effect.

Layers that say `self.built = True` in each call, stacks that are pushed and popped, a lock that is taken and given
back: the replay is a Python call each, and without any there is no replacement code at all. What an entry held before
is known by the guards: a value that is put back where it came from, or a literal that stood there already.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any

from dynacomp.capture._native import set_layout
from dynacomp.capture.base.key_order import in_any_order, is_arranged
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.reconstruct import counted_numbers
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import settle
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import is_const, peek
from dynacomp.capture.values.containers import DictV, ListV, SetV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import own_source
from dynacomp.capture.wrapping.existing_tables import hashes_itself
from dynacomp.capture.wrapping.partial_tables import Entries


def effects(cap: Capture, result: Value | None = None) -> list[Value]:
    """The changed Values that differ now from what they were when the call began. result: what the call gives back."""
    changed = settle(cap)
    counted_numbers.note(cap, changed, result)
    if cap.effects.calls or cap.dropping.pending:  # what runs then may change them as well
        return changed
    return [v for v in changed if not _as_it_was(cap, v)]


def _as_it_was(cap: Capture, value: Value) -> bool:
    """Whether a changed Value needs no replay; of an object, only the attributes that do are left to be written."""
    row = kind(value).is_as_it_was
    return row is not None and row(cap, value)


def _object(cap: Capture, v: ObjectV) -> bool:
    v.written = {n for n in v.written if not _same_attribute(cap, v, n)}
    return not v.written and v.arranged is None


def _set(cap: Capture, v: SetV) -> bool:
    """An element that came and went leaves its place taken, and what takes many at once may move all to other places:
    the order of what comes later is another one."""
    if v.parts is not None:
        return not v.parts.log and not v.parts.emptied
    if set(map(_told_apart, v.members)) != set(map(_told_apart, v.real)):
        return False
    if v.log is None:
        return [*map(id, v.items)] == [*map(id, v.real)] and set_layout(v.items) == set_layout(v.real)
    return {type(added) for _, added in v.log} <= {bool} and len({added for _, added in v.log}) < 2


def _list(cap: Capture, v: ListV) -> bool:
    if v.cls is list and v.unseen is not None:  # only its end can have changed
        return not v.appended
    return v.cls is list and not v.is_open and unmoved(v)[0] == len(v.real) == len(v.items)


define(ObjectV, Kind(is_as_it_was=_object))
define(SetV, Kind(is_as_it_was=_set))
define(ListV, Kind(is_as_it_was=_list))


# What keeps no other object alive, and is the same wherever it equals another of its type.
PLAIN = (bool, int, str, type(None))


def _same_attribute(cap: Capture, value: ObjectV, name: str) -> bool:
    """Whether an attribute is what the guards say it was: the very object, or an equal literal."""
    now = value.attrs.get(name)
    if value.source is None or not is_value(now) or name in value.moved:
        return False
    place = own_source(value.real, value.source, name)
    if now.source is not None:
        return now.source == place
    return is_const(now) and type(peek(now)) in PLAIN and cap.guards.holds("eq", place, peek(now))


def _told_apart(element: Any) -> Any:
    """Elements of a set by type and value where they are literals, else by identity."""
    return (type(element), element) if is_literal(element) else id(element)


def unmoved(v: ListV) -> tuple[int, int]:
    """How many elements at the start and at the end of an existing list lie where they lay: a long list to
    which little is done costs little."""
    base = v.holder.source if v.holder is not None else v.source
    was, now = list.__len__(v.real), len(v.items)

    def same(n: int, item: Any) -> bool:
        found = item.source
        return type(found) is S.Item and found.index == n and found.base == base

    front = next((n for n, item in enumerate(v.items) if not same(n, item)), now)
    most = min(was, now) - front
    return front, next((n for n in range(most) if not same(was - 1 - n, v.items[now - 1 - n])), most)


def changed_entries(v: DictV) -> tuple[list[Any], list[tuple[Any, Any]], list[Any]] | None:
    """The keys of an existing dict that go, the entries that are stored, and which of their keys move to its end: what
    another thread does to the others meanwhile stays. None where that would give another order, or some key has a hash
    of its own."""
    if isinstance(v.items, Entries) and not v.items.whole:
        return v.items.taken()
    if is_arranged(v.items):
        return None
    now = list(v.items) if getattr(v.items, "gone", ()) else in_any_order(v.items)
    if type(v.real) not in KEYS or any(of_class(Value, now)):
        return None
    before = KEYS[type(v.real)](v.real)
    if any(map(hashes_itself, before)) or any(map(operator.is_not, [k for k in before if k in v.items], now)):
        return None
    stored = [(k, v.items[k]) for k in now if v.items[k].source is None or v.items[k].source != S.Key(v.source, k)]  # type: ignore
    return [k for k in before if k not in v.items], stored, []


# How the keys of a dict are read at once, whatever other threads do.
KEYS: dict[type, Callable[[Any], list[Any]]] = {
    dict: list, collections.defaultdict: list, collections.OrderedDict: list}
