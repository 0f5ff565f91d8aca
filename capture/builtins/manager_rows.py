"""Context managers that exist, where they are entered or left by a call of a method.

Managers of JAX's settings, by others than a `with` statement of a plain function:
`stack.enter_context(jax.default_matmul_precision("float32"))`. Such calls are side effects, made again once the Graph
has run; `tracing/settings.py` reads from their log what holds.

Locks are taken in Python, and given back once the side effects are done. Taking one is a graph break, and must be: what
the lock guards may change until it is held, so that guards and inputs are read after that. Giving it back can wait for
the end of the captured code: the side effects that it was held for come first, and whatever might wait for something
there, another lock too, breaks the graph.

    with self.lock:                 # graph break
        self.total += n             # captured, with what follows; the lock is held until `total` is stored
"""

from __future__ import annotations

import threading
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTIN_METHODS, BUILTINS
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.effects import Phase
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.settings import ENTER, EXIT, MANAGER, enter_setting, entered, leave_setting, setting_of
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.questions import is_library_object
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import WRAPPERS

LOCKS = (type(threading.Lock()), type(threading.RLock()))


def _existing(cap: Capture, obj: Any, source: S.Source) -> Value:
    """One that was there before is known by the setting and the value that it brings: programs make them in each
    call."""
    cap.guards.add("is_type", source, MANAGER)
    parts: list[Value] = []
    for name in ("state", "new_val"):
        part, at = getattr(obj, name), S.Slot(source, name, vars(MANAGER)[name])
        cap.guards.add("eq" if type(part) in (str, bool, int) else "is", at, part)
        parts.append(Const(part, source=at))
    return LibraryV(MANAGER, tuple(parts), real=obj, fixed=True, source=source)


def _enter(cap: Capture, manager: Value) -> Value:
    setting = setting_of(cap, manager) if is_library_object(manager) else None
    if setting is None or cap.bodies:
        raise Break("with", "a setting of JAX that the graph cannot be below")
    cap.libraries.sets = True
    cap.effects.call(enter_setting, [manager])
    return Const(None)


def _exit(cap: Capture, manager: Value, *error: Value) -> Value:
    holding = entered(cap)
    if cap.bodies or not holding or holding[-1][0] is not manager:
        raise Break("with", "a setting of JAX that something else has brought since, or that Python has entered")
    cap.effects.call(leave_setting, [manager])
    return Const(None)


def leave(cap: Capture, lock: OpaqueV, *error: Value) -> Value:
    """`lock.__exit__(...)`, at the end of a `with` statement."""
    if type(lock.obj) not in LOCKS or len(error) != 3:
        raise Break("call", f"method '__exit__' of a {type(lock.obj).__qualname__}")
    if cap.bodies:
        raise Break("effect_in_body", "a lock is released")
    cap.effects.call(runtime.release, [lock], phase=Phase.LAST)
    return Const(None)


WRAPPERS[MANAGER] = _existing
BUILTINS.update({ENTER: _enter, EXIT: _exit})
BUILTIN_METHODS[OpaqueV, "__exit__"] = leave
