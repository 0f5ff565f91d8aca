"""`id(x)`: an integer that only the run can know, used as a key.

Programs ask for ids to tell objects apart (visited sets, memo tables, registries). An `IdV` stands
for the id of one object: ids are equal when their objects are the same, whatever the numbers are.
Guards keep objects apart that were apart (`settle_ids`); anything else that a program may do with
the number, such as arithmetic, breaks the graph.
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.operators import binary, truth
from dynacomp.capture.base.errors import Break, GiveUp, Restart
from dynacomp.capture.base.literals import is_single
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.lessons import Lesson
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import SETTLED, certain, leaving_apart
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_const, is_known_literal
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.questions import is_graph_array, is_graph_number, is_object
from dynacomp.capture.values.standing import IdV
from dynacomp.capture.values.value import Value, existing, is_changing, now, type_of
from dynacomp.capture.wrapping.class_prototypes import is_made
from dynacomp.capture.wrapping.partial_tables import Entries

ADDRESS = 1 << 20  # integer keys above it may be ids of objects
MOST = 8  # numbers whose ids may be asked for where some change: each is told from all others


def identify(cap: Capture, x: Value) -> Value:
    """`id(x)`."""
    if is_changing(x) or is_graph_number(x) or is_known_literal(x):
        x = _told_apart(cap, x)
    if is_const(x) and not is_made(cap, x.value) and not _may_be_two(x):
        return Const(id(x.value))  # functions, classes and the like are held by their guards
    if is_graph_array(x):
        certain(cap, x)
    if getattr(x, "of_row", False):
        leaving_apart(cap)
    anchor = _anchor(x)
    known = cap.known.ids.get(id(anchor))
    if known is None:
        known = cap.known.ids[id(anchor)] = IdV(x, anchor)
        cap.known.keep.append(anchor)
    elif x is not known.obj and x.source is not None and known.obj.source is not None:
        cap.guards.add("same", x.source, known.obj.source)
    return known


def _told_apart(cap: Capture, x: Value) -> Value:
    """Numbers and strings that change from call to call are different objects where they have different values, or
    types, which guards hold; small integers that are equal are one, which is given. Of others nobody knows."""
    changing, constants = cap.known.numbers_asked
    if x in changing:
        return x
    others = [v for v in (changing if is_const(x) else (*changing, *constants)) if type_of(v) is type_of(x)]
    if len(others) > MOST:
        raise Break("identity", f"id() of more than {MOST} numbers or strings that change from call to call")
    for other in others:
        is_nan = now(x) != now(x)
        if is_nan or equal(cap, x, other):
            if is_nan or not _are_small(cap, x):
                raise Break("identity", "id() of equal numbers or strings that change from call to call")
            return other
    (constants if is_const(x) else changing).append(x)
    if not is_const(x):
        detail = "id() of a number that changes from call to call"
        cap.known.changing_asked = Lesson(cap.progress.top_step, "identity", detail, cap.where())
    return x


def _are_small(cap: Capture, x: Value) -> bool:
    """Whether `x` is an integer of which CPython keeps one object."""
    if type_of(x) is not int or not is_single(now(x)):
        return False
    low, high = (binary(cap, op, x, Const(end)) for op, end in ((operator.ge, -5), (operator.le, 256)))
    return truth(cap, low) and truth(cap, high)


def _not_beside_kept(cap: Capture) -> None:
    """Where the program has kept ids, those of numbers that change are Python's own."""
    asked = cap.known.changing_asked
    if asked is not None:
        if asked.step in cap.lessons.breaks:
            raise GiveUp(asked.kind, asked.detail)
        cap.lessons.breaks[asked.step] = asked
        raise Restart


def _may_be_two(x: Value) -> bool:
    """A number or string: equal ones may be one object in this call, and two in the next."""
    return is_known_literal(x) and not is_single(x.value)


def _anchor(x: Value) -> Any:
    """What is one object for as long as `x` is one."""
    if is_const(x):
        return x.value
    real = existing(x)
    if real is not None:
        return real
    return x.node if is_graph_array(x) and not is_graph_number(x) else x


def settle_ids(cap: Capture) -> None:
    """Guards that the objects whose ids were asked for are still different ones, and, where the program
    has numbers that may be ids (saved ones, keys of a table), that they are these objects."""
    ids = cap.known.ids.values()
    found: list[tuple[S.Source, Any]] = [(v.obj.source, v.anchor) for v in ids if v.obj.source is not None]
    if not ids:
        return
    if len(found) > 1:
        cap.guards.add("all_distinct", None, tuple(source for source, _ in found), ())
    if any(map(_is_address, cap.numbers.scalars.values())) or any(map(_has_addresses, cap.known.objects.values())):
        _not_beside_kept(cap)
        known = found
    elif any(v.obj.source is None and _may_be_two(v.obj) for v in ids):  # numbers and strings of the code
        known = [(v.obj.source, v.anchor) for v in ids if v.obj.source is not None and _may_be_two(v.obj)]
    else:
        known = []
    for source, anchor in known:
        cap.guards.add("is", source, anchor)


def _has_addresses(value: Any) -> bool:
    if is_object(value):  # of a subclass: what nobody has read decides nothing
        value = None if value.unread else value.payload
    members = None if getattr(value, "unread", None) else kind(value).members
    return members is not None and value.real is not None and any(map(_is_address, _read(members(value))))


def _read(keys: Any) -> Any:
    """The keys of a table that the program has read: of one guarded in parts those that it has asked for."""
    return keys.known_keys() if isinstance(keys, Entries) and not keys.whole else keys


def _is_address(key: Any) -> bool:
    return type(key) is int and key > ADDRESS


BUILTINS[id] = identify
SETTLED.append(settle_ids)
