"""Rows for functions that look into the frame that calls them: its local variables, the frame object.

Replacement code has other locals than the program's code. So a frame that asks for its own is not
captured (`GiveUp`); in a callee, the graph breaks at the call, and that callee runs plainly. After an
earlier break, all locals of such a function stay alive in its resume functions (`resume.live_locals`).
"""

from __future__ import annotations

import builtins
import inspect
import sys
from typing import Any

from dynacomp.capture.base.errors import Break, GiveUp, Raised
from dynacomp.capture.builtins.builtin_rows import row
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.values import Const, Value, object_of


def look(cap: Capture, what: str) -> Any:
    """`what` is asked of the frame that the machine runs now."""
    if cap.current is cap.root.frame:
        raise GiveUp("frame", what)
    raise Break("frame", what)


def _looking(name: str, others: int) -> Any:
    """Looks at the caller's frame, unless it is given more than `others` arguments."""
    def row(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        if len(args) + len(kwargs) > others:
            raise Break("effect", f"{name}()")
        return look(cap, f"{name}()")
    return row


def _getframe(cap: Capture, depth: Value = Const(0)) -> Value:
    if object_of(depth) == 0:
        return look(cap, "sys._getframe()")
    raise Break("call", "sys._getframe")


for _name, _others in {"locals": 0, "dir": 0, "eval": 1, "exec": 1}.items():
    BUILTINS[getattr(builtins, _name)] = _looking(_name, _others)
BUILTINS[sys._getframe] = _getframe
BUILTINS[inspect.currentframe] = lambda cap: look(cap, "inspect.currentframe()")



@row(vars)
def _vars(cap: Capture, *of: Value) -> Value:
    if not of:
        return look(cap, "vars()")
    try:
        return cap.getattr(of[0], "__dict__")
    except Raised:
        raise Raised(Const(TypeError("vars() argument must have __dict__ attribute"))) from None
