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
from types import FunctionType, ModuleType
from typing import Any

from dynacomp.capture._native import unnoticed
from dynacomp.capture.reconstruct.output import Writer
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, peek
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.questions import is_dict, is_list, is_tuple
from dynacomp.capture.values.value import Lazy, existing

MOST = 1024  # objects, looked at while capturing


def is_missed(w: Writer, value: Any) -> bool:
    """Whether a local that nothing reads any more must live on to the end of its frame."""
    row = kind(value).is_unnoticed
    if row is not None and row(value):
        return False
    if value.source is not None:
        return not _is_let_go(w.cap, value)
    return not _holds_harmless(w, value) if _is_container(value) else id(value) in w.e.temps


def _is_let_go(cap: Capture, value: Any) -> bool:
    """Whether what was there before the call may die now, which is a guard then."""
    real = value.obj if isinstance(value, (Lazy, OpaqueV)) else existing(value)
    if real is None or not unnoticed(real) or _is_changed(cap, real):
        return False
    cap.guards.add("unnoticed", value.source)
    return True


def _is_changed(cap: Capture, real: Any) -> bool:
    """Whether captured code has changed an object, or one that it holds: what is there now is not what a guard sees."""
    todo, seen = [real], {id(real)}
    while todo and len(seen) <= MOST:
        x = todo.pop()
        if getattr(cap.known.objects.get(id(x)), "dirty", False):
            return True
        if type(x) is FunctionType:
            held: Any = [*(x.__closure__ or ()), x.__defaults__, x.__kwdefaults__, x.__dict__]
        else:
            held = [] if issubclass(type(x), (type, ModuleType)) else gc.get_referents(x)
        new = {id(y): y for y in held if id(y) not in seen}
        seen.update(new)
        todo += new.values()
    return bool(todo)


def _holds_harmless(w: Writer, value: Any) -> bool:
    """Whether a container that captured code has made need not live on, and holds nothing that must."""
    if id(value) in w.e.temps and not _is_plain(value.cls):
        return False
    if getattr(value, "is_open", False):
        return id(value) not in w.e.temps  # rows of arrays
    return not any(is_missed(w, x) for x in (value.items.values() if is_dict(value) else value.items))


def _is_container(value: Any) -> bool:
    return is_list(value) or is_dict(value) or is_tuple(value)


def _is_plain(cls: Any) -> bool:
    """A class of containers whose instances can have neither weak references nor finalizers: named tuples, too."""
    return cls in (tuple, list, dict) or issubclass(cls, tuple) and not (
        cls.__weakrefoffset__ or cls.__dictoffset__ or any("__del__" in base.__dict__ for base in cls.__mro__))


define(ArrayV, Kind(is_unnoticed=lambda v: True))
define(NumberV, Kind(is_unnoticed=lambda v: True))
define(Const, Kind(is_unnoticed=lambda v: v.source is None or unnoticed(peek(v))))
define(SizeV, Kind(is_unnoticed=lambda v: v.source is not None))
define(ScalarV, Kind(is_unnoticed=lambda v: v.source is not None))
