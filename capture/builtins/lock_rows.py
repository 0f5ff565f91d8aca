"""Locks that existed before: taken in Python, given back once the side effects are done.

Taking one is a graph break, and must be: what the lock guards may change until it is held, so that guards and
inputs are read after that. Giving it back can wait for the end of the captured code: the side effects that it was
held for come first, and whatever might wait for something there, another lock too, breaks the graph.

    with self.lock:                 # graph break
        self.total += n             # captured, with what follows; the lock is held until `total` is stored
"""

from __future__ import annotations

import threading

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTIN_METHODS
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.effects import Phase
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.value import Value

LOCKS = (type(threading.Lock()), type(threading.RLock()))


def leave(cap: Capture, lock: OpaqueV, *error: Value) -> Value:
    """`lock.__exit__(...)`, at the end of a `with` statement."""
    if type(lock.obj) not in LOCKS or len(error) != 3:
        raise Break("call", f"method '__exit__' of a {type(lock.obj).__qualname__}")
    if cap.bodies:
        raise Break("effect_in_body", "a lock is released")
    cap.effects.call(runtime.release, [lock], phase=Phase.LAST)
    return Const(None)


BUILTIN_METHODS[OpaqueV, "__exit__"] = leave
