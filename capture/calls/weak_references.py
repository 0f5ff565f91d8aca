"""Weak references: those that the captured code makes to instances of Python classes and to its own functions,
`weakref.ref(obj)`, and those that it is given.

Captured code counts no references. An object that the program can still reach, from its frames or what it has stored,
is alive: its reference gives it. Of another one only Python knows (it may stand in a cycle): a call of its reference
breaks the graph. Where captured code ends, such an object is made with the reference to it, and goes at once.

    self._inverse = weakref.ref(inverse)
    return inverse                          # the caller holds it: self._inverse() is inverse

Of what existed before, functions, classes and modules last while the captured code runs, where the frame has not let go
of them itself: what a decorator keeps of the function that it has made. Only Python knows when other objects die.
"""

from __future__ import annotations

import gc
import types
import weakref
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTINS, BY_TYPE
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.symbolic.generator_finalization import LEAVES, frames, is_reachable
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_const, peek, stands_for
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.questions import is_lazy, is_made_function, is_object
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping.builder import wrap


@dataclass(eq=False)
class WeakV(Value):
    """A weak reference to `obj`, which it does not hold."""

    obj: Value


def _refer(cap: Capture, obj: Value, callback: Value = Const(None)) -> Value:
    known = is_object(obj) and obj.cls.__weakrefoffset__ and obj.payload is None or is_made_function(obj)
    if not (known and stands_for(callback, None)):
        raise Break("call", "class weakref.ReferenceType")
    cap.known.refers = True
    return WeakV(obj)


def _referent(cap: Capture, ref: WeakV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args or kwargs or not is_reachable(cap, ref.obj):
        raise Break("call", f"a weak reference to a {type_of(ref.obj).__qualname__}")
    return ref.obj


def _existing(cap: Capture, ref: Const) -> Value:
    """What a constant reference refers to; a dead one never lives again. One that comes with the call may be another in
    the next: its referent is read, lest the entry lives no longer than that."""
    obj = _lasting(cap, ref.value)
    if obj is None:
        return Const(None)
    if ref.source is not None and S.belongs_to_call(ref.source):
        return wrap(cap, obj, S.Referent(ref.source))
    return wrap(cap, obj, S.KeyObject(obj, f"<referent {type(obj).__qualname__}>"))


def _given(cap: Capture, ref: OpaqueV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a reference refers to that is another one in each call, as its referent is."""
    if type(ref.obj) is not weakref.ref or args or kwargs or ref.source is None:
        raise Break("call", f"a {type(ref.obj).__qualname__} is called")
    return wrap(cap, _lasting(cap, ref.obj), S.Referent(ref.source))


def _lasting(cap: Capture, ref: weakref.ref[Any]) -> Any:
    """The class, function or module that a reference refers to, or None.

    Other objects may die while the captured code runs, as may a function that it had as a local and has no more:
    only Python knows when.
    """
    obj = ref()
    lasts = isinstance(obj, (type, types.ModuleType)) or isinstance(obj, types.FunctionType) and not _let_go(cap, obj)
    if obj is not None and not lasts:
        raise Break("call", f"a weak reference to a {type(obj).__qualname__}")
    return obj


def _let_go(cap: Capture, obj: Any) -> bool:
    """Whether the frame was given this object, and no local of the code that runs holds it now; or something held it
    that captured code has changed."""
    changed = [v.real for v in cap.effects.mutated if getattr(v, "real", None) is not None]
    tables = [x for x in gc.get_referents(*changed) if type(x) is dict]
    stored = (table.get(name) for (_, name), (table, *_) in cap.effects.globals.items())
    if any(x is obj for x in (*gc.get_referents(*changed, *tables), *stored)):
        return True
    held = [v for frame in frames(cap) for v in (*frame.locals.values(), *frame.stack)]
    return any(a is obj for a in cap.root.args) and not any(
        (v.obj if is_lazy(v) else peek(v) if is_const(v) else None) is obj for v in held)


def _emit(e: Emitter, ref: WeakV) -> None:
    e.call(weakref.ref, lambda: e.load(ref.obj))
    e.remember(ref)


def _identical(cap: Capture, a: Value, b: Value) -> bool:
    """An object has one plain reference."""
    return isinstance(a, WeakV) and isinstance(b, WeakV) and a.obj is b.obj


BUILTINS[weakref.ref] = _refer
BY_TYPE[weakref.ref] = _existing
define(OpaqueV, Kind(call=_given))
define(WeakV, Kind(python_type=lambda v: weakref.ref, call=_referent, emit=_emit, identical=_identical))
LEAVES.append(WeakV)
