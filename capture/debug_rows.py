"""`jax.debug.print` and `warnings.warn`: said once the Graph has run, instead of a graph break.

Nothing that the captured code does meanwhile can be seen: whatever Python prints, or calls, breaks the
graph, and what was to be printed before it is. Only what cannot change until then is kept, arrays and
constants; inside transformed functions and branches a print is a side effect like others. A warning is
given once for each call of a transformation, as eager JAX traces its function once, and not while the
program records warnings or makes them exceptions.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax

from dynacomp.capture import remake
from dynacomp.capture.calls import BUILTINS
from dynacomp.capture.errors import Break
from dynacomp.capture.machine import Capture, Frame
from dynacomp.capture.nodes import library_call
from dynacomp.capture.values import ArrayV, Const, DictV, NumberV, TupleV, Value, is_literal


def debug_print(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if cap.bodies or not all(map(is_settled, (*args, *kwargs.values()))):
        return library_call(cap, jax.debug.print, list(args), kwargs)
    cap.prints.append((remake.debug_print, TupleV(list(args)), DictV(dict(kwargs)), None))
    return Const(None)


def is_settled(v: Value) -> bool:
    """Whether a Value is the same whenever Python gets it."""
    if isinstance(v, TupleV):
        return all(isinstance(x, Value) and is_settled(x) for x in v.items)
    return isinstance(v, (ArrayV, NumberV)) or (isinstance(v, Const) and is_literal(v.value))


WAYS = {name: getattr(warnings, name) for name in ("showwarning", "_showwarnmsg_impl")}  # how one is shown


def warn(cap: Capture, message: Value, category: Value = Const(None), stacklevel: Value = Const(1),
         source: Value = Const(None)) -> Value:
    text, kind, level = (v.value if isinstance(v, Const) else MISSING for v in (message, category, stacklevel))
    frame = frame_at(cap, level) if type(level) is int and level > 0 else None
    is_kind = kind is None or (isinstance(kind, type) and issubclass(kind, Warning))
    if type(text) is not str or not is_kind or frame is None or any(b.is_side for b in cap.bodies):
        raise Break("effect", "warnings.warn()")
    if may_raise(kind or UserWarning) or not shown_as_usual(cap):
        raise Break("effect", "warnings.warn(), where a warning is recorded or raised")
    code = frame.code.code
    said = (text, kind or UserWarning, code.co_filename, frame.instr.line, frame.globals.get("__name__") or "<string>")
    if not cap.bodies or said_first(cap):
        cap.prints.append((remake.warn, TupleV([*map(Const, said)]), DictV({}), frame.globals))
    return Const(None)


MISSING: Any = object()


def frame_at(cap: Capture, level: int) -> Frame | None:
    """The frame that a warning is about; None where it is not one of the captured ones."""
    frame = cap.current
    for _ in range(level - 1):
        frame = frame.parent if frame is not None else None
    return frame


def said_first(cap: Capture) -> bool:
    """Whether this place is reached for the first time: a body may be captured more than once."""
    place: list[Any] = []
    frame = cap.current
    while frame is not None:
        place.append((frame.code.code, frame.index))
        frame = frame.parent
    found = tuple(place) not in cap.said
    cap.said.add(tuple(place))
    return found


def may_raise(kind: type) -> bool:
    """Whether a filter makes exceptions of some such warnings, before one that decides about all of them."""
    for action, text, category, module, line in warnings.filters:
        if issubclass(kind, category):
            if action == "error" or (text, module, line) == (None, None, 0):
                return action == "error"
    return False


def shown_as_usual(cap: Capture) -> bool:
    for name, usual in WAYS.items():
        cap.rely(vars(warnings), name, usual)
    return all(getattr(warnings, name) is usual for name, usual in WAYS.items())


BUILTINS[jax.debug.print] = debug_print
BUILTINS[warnings.warn] = warn
