"""Questions that only the class of an object answers: asked once for all objects of a class.

NNX asks thousands of times whether something is a Variable, and its check (`__instancecheck__`, which metaclasses write
in Python) looks at nothing but the class of what it is given. So do functions of one argument such as

    def is_node(x): return type(x) in REGISTRY or isinstance(x, tuple)

Each is first run for a stand-in of which only the class is known: a check at once, a function once some calls have
changed nothing. Where it gives a constant without having asked for more, and has changed nothing, that is its answer
for every object of the class, until something that existed before the call changes: it may have read that. Where it
asks for more, it is run for each object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing import settings
from dynacomp.capture.values.constant import is_open, stands_for
from dynacomp.capture.values.kind import FIELDS, Kind, define, kind
from dynacomp.capture.values.questions import says_its_class
from dynacomp.capture.values.value import NotConstant, Value, existing, type_of
from dynacomp.capture.wrapping.class_attrs import lookup

# Whose attributes are found as those of any object, though in C functions of their own.
PLAIN = {object, type, int, float, complex, str, bytes, tuple, list, dict, set, frozenset}
QUIET_CALLS = 8  # of a function, before it is run for a stand-in
IN_VAIN = 4  # classes of which a function has asked for more, before it is run for each object


@dataclass(eq=False)
class OfClassV(Value):
    """Any object of a class. Who takes it for one of a kind, and reads what Values of that kind have, asks for more."""

    cls: type

    def __getattr__(self, name: str) -> NoReturn:
        raise AsksForMore(name)


class AsksForMore(Exception):
    """A check looks at more than an object's class."""


def _more(*_: Any, **__: Any) -> NoReturn:
    raise AsksForMore


OF_CLASS = {"python_type", "is_instance"}  # asked of the class: `isinstance` by types has no row of its own
define(OfClassV, Kind(python_type=lambda v: v.cls, **dict.fromkeys(set(FIELDS) - OF_CLASS, _more)))  # type: ignore[arg-type]


@dataclass
class Asked:
    """What is known of a function of one argument: its calls that changed nothing, the classes that said all, and
    those that did not."""

    calls: int = 0
    told: int = 0
    in_vain: int = 0


def tells_its_class(cap: Capture, cls: type) -> bool:
    """Whether code of the program tells the `__class__` of instances."""
    if id(cls) not in cap.known.telling:
        tells = lookup(cls, "__class__")[0] is not object or lookup(cls, "__getattribute__")[0] not in PLAIN
        cap.known.telling[id(cls)] = cls, tells
    return cap.known.telling[id(cls)][1]


def checked(cap: Capture, check: Any, meant: Any, x: Value, cls: type, ask: Callable[[Value], Value]) -> Value:
    """What `ask(x)` gives, which runs the check of the class `meant` for an object of class `cls`."""
    if says_its_class(x) or _each_is_asked(cap) or tells_its_class(cap, cls):
        return ask(x)
    return _of_class(cap, (id(check), id(meant.value), id(cls)), (check, meant.value), cls, ask) or ask(x)


def called(cap: Capture, fn: Any, x: Value, ask: Callable[[Value], Value]) -> Value:
    """What `ask(x)` gives, which enters the existing function `fn` with one argument."""
    asked = cap.known.asked.get(id(fn))
    if asked is None:
        asked = cap.known.asked[id(fn)] = Asked()
    if asked.calls < QUIET_CALLS:
        return _watched(cap, asked, x, ask)
    if asked.in_vain > max(IN_VAIN, asked.told) or says_its_class(x) or _each_is_asked(cap):
        return ask(x)
    cls = None if kind(x).python_type is None else type_of(x)
    if cls is None or tells_its_class(cap, cls):
        return ask(x)
    place = id(fn), 0, id(cls)
    new = place not in cap.known.checks
    answer = _of_class(cap, place, (fn,), cls, ask)
    if new:
        asked.told, asked.in_vain = asked.told + (answer is not None), asked.in_vain + (answer is None)
    return answer or ask(x)


def _watched(cap: Capture, asked: Asked, x: Value, ask: Callable[[Value], Value]) -> Value:
    """`ask(x)`; a function that has changed something is asked for each object for good."""
    before = _so_far(cap)
    found = ask(x)
    quiet = _is_settled(found) and _so_far(cap) == before
    asked.calls, asked.in_vain = (asked.calls + 1, asked.in_vain) if quiet else (QUIET_CALLS, IN_VAIN + 1)
    return found


def _each_is_asked(cap: Capture) -> bool:
    return cap.lessons.each_checked or any(b.is_side for b in cap.bodies)


def _is_settled(found: Value) -> bool:
    """Whether an answer is the same object for all who are given it: a constant, or what has existed."""
    return not is_open(found) and existing(found) is not None or stands_for(found, None)


def _of_class(
        cap: Capture, place: Any, keep: tuple[Any, ...], cls: type, ask: Callable[[Value], Value]) -> Value | None:
    """The answer for all objects of a class, here: under these settings of JAX, in the function that is being
    transformed, if any."""
    known = _known(cap)
    place = (*place, settings.held(cap), *cap.bodies[-1:])
    if place not in known:
        known[place] = _of_any(cap, cls, ask)
        cap.known.keep += [*keep, cls]
    return known[place]


def _known(cap: Capture) -> dict[Any, Value | None]:
    """The answers that hold now: those that are given for each object always do."""
    if cap.known.escapes.changed(cap.effects):
        cap.known.checks = {place: answer for place, answer in cap.known.checks.items() if answer is None}
    return cap.known.checks


def _of_any(cap: Capture, cls: type, ask: Callable[[Value], Value]) -> Value | None:
    """The answer for all objects of a class, or None."""
    before, where = _so_far(cap), cap.progress.last_where
    try:
        found = ask(OfClassV(cls))
        answer = found if _is_settled(found) else None
    except (AsksForMore, Break, NotConstant, Raised):  # for an object it may go another way
        cap.progress.last_where = where
        answer = None
    if _so_far(cap) != before:  # where the stand-in may be found: all is done again without one
        cap.lessons.each_checked = True
        raise Restart
    return answer


def _so_far(cap: Capture) -> tuple[int, ...]:
    """What a check changes that is more than a check."""
    e = cap.effects
    logs = e.mutated, e.calls, e.globals, e.classes, e.arrays, e.said, cap.bodies
    return (*map(len, logs), cap.progress.captured_ops)
