"""Rows for functions that look into the frame that calls them: its local variables, the frame object.

`locals()` in a function is a dict of what the machine knows, as it would be of CPython's frame. What remains asks a
real frame, and replacement code has other locals than the program's code: a frame that asks for its own is not captured
then (`GiveUp`); in a callee, the graph breaks at the call, and that callee runs plainly. So do resume functions. After
an earlier break, all locals of such a function stay alive in its resume functions (`control_flow_graph.live`).

    parameters = dict(locals())     # as constructors of TensorFlow Probability begin
"""

from __future__ import annotations

import builtins
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from dynacomp.capture.base.errors import Break, GiveUp, Raised
from dynacomp.capture.builtins.builtin_rows import row
from dynacomp.capture.bytecode.resume import is_resume
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.constant import Const, object_of
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.frames import NULL
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import class_attrs
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.immutability import IMMUTABLE_TYPE


def look(cap: Capture, what: str) -> Any:
    """`what` is asked of the frame that the machine runs now."""
    if cap.current is cap.root.frame:
        raise GiveUp("frame", what)
    raise Break("frame", what)


def _looking(name: str) -> Any:
    """Looks at the caller's frame, unless it is given variables."""
    def row(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        if len(args) + len(kwargs) > 1:
            raise Break("effect", f"{name}()")
        return look(cap, f"{name}()")
    return row


def _getframe(cap: Capture, depth: Value = Const(0)) -> Value:
    if object_of(depth) == 0:
        return look(cap, "sys._getframe()")
    raise Break("call", "sys._getframe")


def show(cap: Capture, what: str) -> Value:
    """`locals()` of the frame at hand."""
    f = cap.current
    assert f is not None
    code = f.code.code
    if f.namespace is not None or not code.co_flags & inspect.CO_OPTIMIZED or _is_made(code):
        return look(cap, what)
    bound = variables(f)
    if f.shown is None or sys.version_info >= (3, 13):
        f.shown = DictV(bound)
        return f.shown
    mutating(cap, f.shown)
    for name in names_of(code):
        f.shown.items.pop(name, None) if name not in bound else f.shown.items.update({name: bound[name]})
    return f.shown


def _is_made(code: types.CodeType) -> bool:
    """Whether we have made this code, with variables of ours."""
    return is_resume(code) or any(name.startswith("$") for name in code.co_varnames)


def names_of(code: types.CodeType) -> Iterator[str]:
    """All variables, in the order of `locals()`: parameters stand first, also those in cells."""
    return iter(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def variables(f: Frame) -> dict[str, Any]:
    """The variables that are bound, with their values."""
    held = {name: cell.content for name, cell in f.cells.items() if cell.content is not None} | f.locals
    return {name: held[name] for name in names_of(f.code.code) if name in held and held[name] is not NULL}


BUILTINS[locals] = lambda cap: show(cap, "locals()")
for _name in ("eval", "exec"):
    BUILTINS[getattr(builtins, _name)] = _looking(_name)
BUILTINS[sys._getframe] = _getframe
BUILTINS[inspect.currentframe] = lambda cap: look(cap, "inspect.currentframe()")



@row(dir)
def _dir(cap: Capture, *of: Value) -> Value:
    """The names of an object that has none of its own, of a class that nobody can change."""
    if not of:
        return look(cap, "dir()")
    cls = type_of(of[0])
    if len(of) > 1 or not cls.__flags__ & IMMUTABLE_TYPE or cls.__dictoffset__ or cls.__dir__ is not object.__dir__ or (
            cls is super and _finds_table(cap, of[0])):
        raise Break("effect", "dir()")
    return from_python(cap, dir(cls))


def _finds_table(cap: Capture, proxy: Any) -> bool:
    """Whether `super(cls, self)` finds the table of `self`, because a class behind `cls` has one."""
    if proxy.source is not None or not issubclass(type_of(proxy.obj), proxy.cls):
        return True
    return class_attrs.resolve(cap, type_of(proxy.obj), "__dict__", after=proxy.cls)[0] is not None


@row(vars)
def _vars(cap: Capture, *of: Value) -> Value:
    if not of:
        return show(cap, "vars()")
    try:
        return cap.getattr(of[0], "__dict__")
    except Raised:
        raise Raised(Const(TypeError("vars() argument must have __dict__ attribute"))) from None
