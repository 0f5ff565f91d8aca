"""Identity of Values: `a is b`, and what a guard must hold for the answer to be the same in the next call.

Objects that exist are the same where their Sources lead to one object; what the captured code makes is itself alone.
Equal numbers and strings may be one object in this call, and two in the next.
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal, is_single
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import certain, leaving_apart
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV
from dynacomp.capture.values.constant import Const, is_const, is_open, peek
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_library_object, is_number, is_plain_tuple, is_scalar
from dynacomp.capture.values.standing import LaterV
from dynacomp.capture.values.value import Value, existing, now, type_of
from dynacomp.capture.wrapping.immutability import TREEDEF, says_constants


def is_same(a: Value, b: Value) -> bool:
    """`a is b`."""
    if a is b:
        return True
    if (is_open(a) or is_open(b)) and type_of(a) is not type_of(b):
        return False
    if existing(a) is not None and existing(a) is existing(b):
        return True
    if is_const(a) and is_const(b):
        return a.value is b.value
    return _is_empty_tuple(a) and _is_empty_tuple(b)


def _is_empty_tuple(value: Value) -> bool:
    """There is one of them."""
    if is_const(value):
        return type(value.value) is tuple and not value.value
    return is_plain_tuple(value) and not value.items


def same_object(cap: Capture, a: Value, b: Value) -> bool:
    """`a is b`, guarded where both are inputs."""
    if a is not b and type_of(a) is type_of(b):
        _may_be_one(cap, a, b)
    rows = (kind(v).identical for v in (a, b))
    return next((row for row in rows if row is not None), _same_existing)(cap, a, b)


def _may_be_one(cap: Capture, a: Value, b: Value) -> None:
    """Restarts or breaks where no capture can tell whether two Values of one class are one object."""
    if any(v in body.stand_ins for body in cap.bodies for v in (a, b)):
        raise Break("identity", "`is` of what each round of a loop makes anew")
    if any(getattr(v, "of_row", False) for v in (a, b)):
        leaving_apart(cap)
    if any(is_library_object(v) and v.make is getattr for v in (a, b)):
        raise Break("identity", "`is` of what stands in an object of a library's, which may hand on what it was given")
    arrays = [*of_class(ArrayV, (a, b))]
    for v in arrays:
        certain(cap, v, another=len(arrays) > 1)
    if len(arrays) > 1 and any(v.node in body.as_given for body in cap.bodies for v in arrays):
        raise Break("identity", "`is` of an array that a library has handed on")


def _same_existing(cap: Capture, a: Value, b: Value) -> bool:
    """What exists is the same where it is one object."""
    constants = is_const(a) and is_const(b)
    if constants and a is not b and (is_open(a) or is_open(b)):
        return _same_function(cap, a, b)  # type: ignore[arg-type]
    answer = is_same(a, b)
    if constants and _known_by_value(peek(a)) and type(peek(a)) is type(peek(b)):  # type: ignore[arg-type]
        _same_literal(cap, a, b, answer)  # type: ignore[arg-type]
    elif a is not b and not constants:
        _guard_identity(cap, a, b, answer)
    return answer


def _same_later(cap: Capture, a: Value, b: Value) -> bool:
    """What Python makes of arrays is made in the end, of one class at least."""
    if a is not b and type_of(a) is type_of(b):
        raise Break("identity", "`is` of what Python makes of arrays")
    return _same_existing(cap, a, b)


def _same_function(cap: Capture, a: Const, b: Const) -> bool:
    """Two functions of which at least one is known by its type alone."""
    if type(peek(a)) is not type(peek(b)):
        return False
    answer = peek(a) is peek(b)
    if a.source is not None and b.source is not None:
        cap.guards.add("same" if answer else "distinct", a.source, b.source)
    else:
        cap.guards.add("is" if answer else "is_not", a.source or b.source, peek(b if a.source is not None else a))
    return answer


def _known_by_value(obj: Any) -> bool:
    return is_literal(obj) or type(obj) in (slice, range) or type(obj) is TREEDEF and says_constants(obj)


def _guard_identity(cap: Capture, a: Value, b: Value, answer: bool) -> None:
    """Two objects, one of them at least known by its type alone. One that is known by its identity is another
    object than those of other types."""
    known = a if is_const(a) else b if is_const(b) else None
    if is_open(known) and type_of(a) is not type_of(b):
        return
    other = existing(b if known is a else a)  # None of what the call makes, which is no None that is there
    if known is not None and (other is None or type(other) is not type(known.value)):
        return
    if a.source is not None and b.source is not None:
        cap.guards.add("same" if answer else "distinct", a.source, b.source)
    elif known is not None and (a.source is not None or b.source is not None):
        cap.guards.add("is" if answer else "is_not", a.source or b.source, known.value)


def _same_scalar(cap: Capture, a: Value, b: Value) -> bool:
    """Numbers and strings that change are the objects that their Sources hold, in each call others."""
    if a is b or not all(is_scalar(v) or is_const(v) for v in (a, b)):
        return a is b
    if type(now(a)) is not type(now(b)):  # which are guarded
        return False
    if type(now(a)) is bool:  # there are two
        return dynamic_scalars.decided(cap, dynamic_scalars.host("eq", operator.eq, a, b))  # type: ignore[arg-type]
    if any(type(v.source) is S.Host for v in (a, b)):
        raise Break("identity", "`is` of numbers that Python computes")
    found = now(a), now(b)
    answer = found[0] is found[1]
    if a.source is not None and b.source is not None:
        cap.guards.add("same" if answer else "distinct", a.source, b.source)
    else:
        cap.guards.add("is" if answer else "is_not", a.source or b.source, found[1] if a.source else found[0])
    return answer


def _same_literal(cap: Capture, a: Const, b: Const, answer: bool) -> None:
    """Equal strings and numbers may be one object in this call, and two in the next."""
    if a is b or is_single(a.value) or (not answer and a.value != b.value):
        return
    if a.source is not None and b.source is not None:
        cap.guards.add("same" if answer else "distinct", a.source, b.source)
    elif a.source is not None or b.source is not None:
        cap.guards.add("is" if answer else "is_not", a.source or b.source, b.value if a.source else a.value)


def _same_number(cap: Capture, a: Value, b: Value) -> bool:
    """Equal numbers are one object or two: nothing is known of those that the Graph computes."""
    if a is not b and is_number(a) and is_number(b):
        raise Break("identity", "`is` of numbers that are computed from arrays")
    return _same_existing(cap, a, b)


define(NumberV, Kind(identical=_same_number))
define(LaterV, Kind(identical=_same_later))
define(ScalarV, Kind(identical=_same_scalar))
