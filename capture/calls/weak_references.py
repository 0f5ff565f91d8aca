"""Weak references that the captured code makes to instances of Python classes: `weakref.ref(obj)`.

Captured code counts no references. An object that the program can still reach, from its frames or what it has stored,
is alive: its reference gives it. Of another one only Python knows (it may stand in a cycle): a call of its reference
breaks the graph. Where captured code ends, such an object is made with the reference to it, and goes at once.

    self._inverse = weakref.ref(inverse)
    return inverse                          # the caller holds it: self._inverse() is inverse
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.symbolic.generator_finalization import LEAVES, is_reachable
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.value import Value


@dataclass(eq=False)
class WeakV(Value):
    """A weak reference to `obj`, which it does not hold."""

    obj: ObjectV


def _refer(cap: Capture, obj: Value, callback: Value = Const(None)) -> Value:
    if not (is_object(obj) and obj.cls.__weakrefoffset__ and obj.payload is None and stands_for(callback, None)):
        raise Break("call", "class weakref.ReferenceType")
    cap.known.refers = True
    return WeakV(obj)


def _referent(cap: Capture, ref: WeakV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args or kwargs or not is_reachable(cap, ref.obj):
        raise Break("call", f"a weak reference to a {ref.obj.cls.__qualname__}")
    return ref.obj


def _emit(e: Emitter, ref: WeakV) -> None:
    e.call(weakref.ref, lambda: e.load(ref.obj))
    e.remember(ref)


def _identical(cap: Capture, a: Value, b: Value) -> bool:
    """An object has one plain reference."""
    return isinstance(a, WeakV) and isinstance(b, WeakV) and a.obj is b.obj


BUILTINS[weakref.ref] = _refer
define(WeakV, Kind(python_type=lambda v: weakref.ref, call=_referent, emit=_emit, identical=_identical))
LEAVES.append(WeakV)
