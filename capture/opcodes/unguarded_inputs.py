"""Inputs that the captured code does not look at: they need no guard.

A local that the outermost frame only returns, in a tuple, or drops is handed through as it is; one that is
only tested for UNBOUND is guarded by that test alone. The segments of a generator (segments.py) do
both with every local that a generator carries from one `yield` to the next.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.bytecode.code import Decoded
from dynacomp.capture.bytecode.segments import UNBOUND
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.value import Lazy, Value

MOVES = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_CONST", "BUILD_TUPLE")


def unseen(cap: Capture, frame: Frame, held: Lazy) -> Any:
    """What is loaded of a local that need not be looked at; None where it must be."""
    if frame.parent is not None or cap.bodies:
        return None
    if _is_tested(frame):
        return _tested(cap, held)
    after = frame.index + 1
    return held if _is_returned(frame.code, after) or _is_dropped(frame.code, after) else None


def _is_tested(frame: Frame) -> bool:
    """Whether `x is UNBOUND` is asked: the load of the constant comes next, the comparison after it."""
    following = frame.code.instrs[frame.index + 1]
    return following.name == "LOAD_CONST" and following.argval is UNBOUND


def _tested(cap: Capture, held: Lazy) -> Value:
    """Stands for the local in the comparison."""
    cap.guards.add("is" if held.obj is UNBOUND else "is_not", held.source, UNBOUND)
    return Const(UNBOUND if held.obj is UNBOUND else None)


def _is_dropped(decoded: Decoded, at: int) -> bool:
    """As what is sent to a plain `yield x`."""
    while decoded.instrs[at].name in ("DELETE_FAST", "RESUME", "NOP"):
        at += 1
    return decoded.instrs[at].name == "POP_TOP"


def _is_returned(decoded: Decoded, at: int) -> bool:
    instrs = decoded.instrs
    while instrs[at].name in MOVES:
        at += 1
    return instrs[at].name == "RETURN_VALUE" and instrs[at - 1].name == "BUILD_TUPLE"
