"""Checks that metaclasses write in Python, `__instancecheck__`: answered once for all objects of a class.

NNX asks thousands of times whether something is a Variable, and its check looks at nothing but the class of what it is
given. So a check is first run for a stand-in of which only the class is known. Where it says yes or no without having
asked for more, and has changed nothing, that is its answer for every object of the class, until something that existed
before the call changes: the check may have read that. Where it asks for more, it is run for each object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changed_outside
from dynacomp.capture.values.kind import FIELDS, Kind, define
from dynacomp.capture.values.questions import says_its_class
from dynacomp.capture.values.value import NotConstant, Value


@dataclass(eq=False)
class OfClassV(Value):
    """Any object of a class."""

    cls: type


class AsksForMore(Exception):
    """A check looks at more than an object's class."""


def _more(*_: Any, **__: Any) -> NoReturn:
    raise AsksForMore


OF_CLASS = {"python_type", "is_instance"}  # asked of the class: `isinstance` by types has no row of its own
define(OfClassV, Kind(python_type=lambda v: v.cls, **dict.fromkeys(set(FIELDS) - OF_CLASS, _more)))  # type: ignore[arg-type]


def checked(cap: Capture, check: Any, kind: Any, x: Value, cls: type, ask: Callable[[Value], bool]) -> bool:
    """What `ask(x)` says, which runs the check of the class `kind` for an object of class `cls`."""
    if says_its_class(x) or cap.lessons.each_checked or any(b.is_side for b in cap.bodies):
        return ask(x)
    known, place = _known(cap), (id(check), id(kind.value), id(cls))
    if place not in known:
        known[place] = _of_any(cap, cls, ask)
        cap.known.keep += [check, kind.value, cls]
    answer: bool | None = known[place]
    return ask(x) if answer is None else answer


def _known(cap: Capture) -> dict[Any, bool | None]:
    """The answers that hold now."""
    if changed_outside(cap, cap.known.checked_at):
        cap.known.checks.clear()
    cap.known.checked_at = len(cap.effects.mutated)
    return cap.known.checks


def _of_any(cap: Capture, cls: type, ask: Callable[[Value], bool]) -> bool | None:
    """The answer for all objects of a class, or None."""
    before, where = _so_far(cap), cap.progress.last_where
    try:
        answer = ask(OfClassV(cls))
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
