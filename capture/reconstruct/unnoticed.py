"""Locals that nothing reads any more at a graph break: whether they must live on all the same.

In Python such a local lives until its name is bound again, or to the end of its frame. That shows where an object has a
finalizer, or where weak references tell that it died early. Arrays, numbers and text may die, and so may containers,
functions and objects that have neither and hold only such. They are let go: else the first round of a loop, in which
they are not bound yet, would go on in another resume function than the rounds after it.

    for batch in loader:
        loss, grads = step(params, batch)      # `batch`, `loss`, `grads` are bound anew before they are read
        params = update(params, grads)
        print("done")                          # all rounds go on behind this break in one function

What the call was given is looked at in each call: guarded, where its type is not.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from dynacomp.capture._native import unnoticed
from dynacomp.capture.reconstruct.output import Writer
from dynacomp.capture.symbolic.generator_finalization import REAL
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changed
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.frames import is_null
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.questions import is_dict, is_list, is_tuple
from dynacomp.capture.values.value import Lazy, Value, existing

MOST = 1024  # objects, looked at while capturing


@dataclass
class AtBreak:
    """A break that is written. quiet: what it runs makes no weak references to the program's objects."""

    w: Writer
    quiet: bool
    seen: set[int] = field(default_factory=set)

    def is_missed(self, value: Any) -> bool:
        """Whether a local that nothing reads any more must live on to the end of its frame."""
        if not isinstance(value, (Value, Lazy)):  # an element of a set
            return not unnoticed(value, True)
        if _is_plain_value(value) or id(value) in self.seen:
            return False
        if value.source is not None:
            return not self._is_let_go(value)
        self.seen.add(id(value))
        if id(value) in self.w.e.temps and not (_is_container(value) and _is_plain(value.cls)):  # type: ignore[attr-defined]
            return True
        if getattr(value, "is_open", False):
            return id(value) in self.w.e.temps  # rows of arrays
        return any(map(self.is_missed, _held(value)))

    def _is_let_go(self, value: Any) -> bool:
        """Whether what was there before the call may die now, which is a guard then."""
        cap, real = self.w.cap, value.obj if isinstance(value, (Lazy, OpaqueV)) else existing(value)
        unreferable = not self.quiet or cap.known.refers
        if real is None or not unnoticed(real, unreferable) or _is_changed(cap, real):
            return False
        cap.guards.add("unreferable" if unreferable else "unnoticed", value.source)
        return True


QUIET = (print, float, int, bool, str, len, round, abs, format, repr)


def is_quiet(operands: list[Any]) -> bool:
    """Whether an instruction works on numbers, text and arrays alone: `print("done")`."""
    return all(is_null(v) or is_const(v) and any(peek(v) is fn for fn in QUIET) or _is_plain_value(v) for v in operands)


def _is_plain_value(v: Any) -> bool:
    row = kind(v).is_unnoticed
    return row is not None and row(v)


def _held(value: Any) -> Iterator[Any]:
    """The Values in one that captured code has made, and the objects that are keys in it."""
    todo = [x for name, x in vars(value).items() if name not in REAL]
    while todo:
        x = todo.pop()
        if isinstance(x, (Value, Lazy)):
            yield x
        elif type(x) in (list, tuple):
            todo += x
        elif type(x) in (set, dict):
            yield from x
            todo += x.values() if type(x) is dict else ()


def _is_changed(cap: Capture, real: Any) -> bool:
    """Whether captured code has changed an object, or one that it holds: what is there now is not what a guard sees."""
    todo, seen = [real], {id(real)}
    differ = {id(v.real) for v in changed(cap)}  # type: ignore[attr-defined]
    while todo and len(seen) <= MOST:
        x = todo.pop()
        if id(x) in differ:
            return True
        if type(x) is FunctionType:
            held: Any = [*(x.__closure__ or ()), x.__defaults__, x.__kwdefaults__, x.__dict__]
        else:
            held = [] if issubclass(type(x), (type, ModuleType)) else gc.get_referents(x)
        new = {id(y): y for y in held if id(y) not in seen}
        seen.update(new)
        todo += new.values()
    return bool(todo)


def _is_container(value: Any) -> bool:
    return is_list(value) or is_dict(value) or is_tuple(value)


def _is_plain(cls: Any) -> bool:
    """A class of containers whose instances can have neither weak references nor finalizers: named tuples, too."""
    return cls in (tuple, list, dict) or issubclass(cls, tuple) and not (
        cls.__weakrefoffset__ or cls.__dictoffset__ or any("__del__" in base.__dict__ for base in cls.__mro__))


define(ArrayV, Kind(is_unnoticed=lambda v: True))
define(NumberV, Kind(is_unnoticed=lambda v: True))
define(Const, Kind(is_unnoticed=lambda v: v.source is None or unnoticed(peek(v), True)))
define(SizeV, Kind(is_unnoticed=lambda v: v.source is not None))
define(ScalarV, Kind(is_unnoticed=lambda v: v.source is not None))
