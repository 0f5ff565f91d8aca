"""The program's functions for a library that runs them in a context of its own, as Haiku does: real functions, which
no stand-in replaces.

A function that was there before the call is itself. One that the call has made exists only in the capture: it is made
real around what its cells and defaults hold, where that is constant. The library's call is traced with it, and
its code is guarded as that of any function that a library runs (`library_reads`). What it was made of must stay as it
is from then on: `side_effects.mutating` sees to it.

    def net(x):                     # made anew in each call, around `width`
        return hk.nets.MLP([width, 1])(x)
    params = hk.transform(net).init(key, x)
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.subgraphs import Standin
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.library_reads import by_content
from dynacomp.capture.values.callables import FunctionV, MethodV, PartialV
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.builder import is_plain_instance, items_of
from dynacomp.capture.wrapping.class_prototypes import is_made


def as_real(arg: Any) -> Any:
    """A lowered argument with the user's own functions in place of Standins."""
    if isinstance(arg, Standin):
        return _function(arg.cap, arg.value)
    if isinstance(arg, (tuple, list)) and not hasattr(arg, "_fields"):
        return type(arg)(map(as_real, arg))
    return {k: as_real(v) for k, v in arg.items()} if type(arg) is dict else arg


def exists(value: Value) -> bool:
    """Whether it is an object that was there before the call, and is as it was."""
    return is_object(value) and value.real is not None and not value.written


def _function(cap: Capture, value: Value) -> Any:
    row = FUNCTIONS.get(type(value), _refused)
    return row(cap, value)


def _method(cap: Capture, value: MethodV) -> Any:
    if not exists(value.obj) or not is_const(value.func):
        return _refused(cap, value)
    return types.MethodType(value.func.value, value.obj.real)  # type: ignore[attr-defined]


def _partial(cap: Capture, value: PartialV) -> Any:
    if value.attrs:
        return _refused(cap, value)
    kwargs = {name: _content(cap, v) for name, v in value.kwargs.items()}
    return functools.partial(_function(cap, value.func), *(_content(cap, v) for v in value.args), **kwargs)


def _of_capture(cap: Capture, value: FunctionV) -> Any:
    return _refused(cap, value) if value.attrs else _known(cap, value) or _made(cap, value)


def _refused(cap: Capture, value: Value) -> Any:
    raise Break("body", "an object made during the call, for a library that runs it in a context of its own")


def _existing(cap: Capture, value: Const) -> Any:
    return peek(value) if by_content(cap, peek(value), value.source) else value.value


FUNCTIONS: dict[type, Callable[[Capture, Any], Any]] = {
    Const: _existing, MethodV: _method, PartialV: _partial, FunctionV: _of_capture}


def _known(cap: Capture, fn: FunctionV) -> Any:
    """The function that was made of `fn` already, as long as its variables are as they were."""
    made, contents = cap.libraries.hosted.get(id(fn), (None, ()))
    if made is not None and any(cell.content is not was for cell, was in zip(fn.closure, contents)):
        raise Break("body", "a function whose variables have changed, for a library that runs it")
    return made


def _made(cap: Capture, fn: FunctionV) -> types.FunctionType:
    """The function, known before its cells are filled: one of them may hold it."""
    cells = [cap.libraries.hosted.setdefault(id(cell), types.CellType()) for cell in fn.closure]
    made = types.FunctionType(fn.code, fn.globals, fn.name, None, tuple(cells))
    made.__qualname__ = fn.qualname
    for cell in fn.closure:
        cell.content = None if cell.content is None else cap.realize(cell.content)
    cap.libraries.hosted[id(fn)] = made, tuple(cell.content for cell in fn.closure)
    cap.known.keep += [fn, *fn.closure]  # known by their ids
    if fn.defaults is not None:
        made.__defaults__ = _content(cap, fn.defaults)
    if fn.kwdefaults is not None:
        made.__kwdefaults__ = {name: _content(cap, v) for name, v in fn.kwdefaults.items.items()}
    for value, cell in zip(fn.closure, cells):
        cell.cell_contents = _content(cap, value)
    return made


def _content(cap: Capture, value: Value) -> Any:
    """What a cell or a default holds; Break where that may change, or exists only when the code runs."""
    value = size_values.known(cap, cap.realize(value), "a function that a library runs in a context of its own")
    return CONTENTS.get(type(value), _unknown)(cap, value)


def _cell(cap: Capture, value: CellV) -> Any:
    if value.content is None:
        raise Break("body", "a function around a variable without a value, for a library that runs it")
    return _content(cap, value.content)


def _tuple(cap: Capture, value: TupleV) -> Any:
    return tuple(_content(cap, v) for v in items_of(cap, value)) if value.cls is tuple else _unknown(cap, value)


def _object(cap: Capture, value: ObjectV) -> Any:
    if not exists(value) or not is_plain_instance(value.real):
        return _unknown(cap, value)
    cap.libraries.given.append(value)
    cap.libraries.hosted[id(value)] = value.real
    return value.real


def _unknown(cap: Capture, value: Value) -> Any:
    raise Break("body", f"a function around a {type(value).__name__.removesuffix('V').lower()} that the call has made, "
                        "for a library that runs it in a context of its own")


CONTENTS: dict[type, Callable[[Capture, Any], Any]] = {
    CellV: _cell, TupleV: _tuple, ObjectV: _object, ScalarV: lambda cap, v: as_python(v),
    Const: lambda cap, v: _unknown(cap, v) if is_made(cap, v.value) else v.value,
    **dict.fromkeys((FunctionV, PartialV, MethodV), _function)}
