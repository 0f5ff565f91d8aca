"""Arguments to parameters: how a call of a Python function fills its frame.

`bind(cap, fn, args, kwargs)` follows Python's rules. Where arguments do not fit, CPython itself is
asked for its words: a function with the same parameters is called with the same shape of arguments,
which fails before any code of it could run.
"""

from __future__ import annotations

import inspect
import types

from dynacomp.capture.base.errors import Raised
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.value import Value


class Mismatch(Exception):
    """The arguments do not fit the parameters."""


def bind(cap: Capture, fn: FunctionV, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Parameter name → Value; Raised TypeError when they do not fit."""
    try:
        bound = _bind(fn, args, dict(kwargs))
        _fill_defaults(cap, fn, bound)
    except Mismatch:
        raise Raised(Const(_complaint(cap, fn, args, kwargs))) from None
    return bound


def _bind(fn: FunctionV, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    code = fn.code
    positional = code.co_varnames[:code.co_argcount]
    star = code.co_argcount + code.co_kwonlyargcount
    bound: dict[str, Value] = dict(zip(positional, args))
    if code.co_flags & inspect.CO_VARARGS:
        bound[code.co_varnames[star]] = TupleV(list(args[len(positional):]))
        star += 1
    elif len(args) > len(positional):
        raise Mismatch
    for name in code.co_varnames[code.co_posonlyargcount:code.co_argcount + code.co_kwonlyargcount]:
        if name in kwargs:
            if name in bound:
                raise Mismatch
            bound[name] = kwargs.pop(name)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[code.co_varnames[star]] = DictV(kwargs)
    elif kwargs:
        raise Mismatch
    return bound


def _fill_defaults(cap: Capture, fn: FunctionV, bound: dict[str, Value]) -> None:
    code = fn.code
    positional = code.co_varnames[:code.co_argcount]
    defaults = cap.items(fn.defaults) if fn.defaults is not None else []
    for name, value in zip(positional[len(positional) - len(defaults):], defaults):
        bound.setdefault(name, value)
    for name in code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]:
        if name not in bound and fn.kwdefaults is not None and name in fn.kwdefaults.items:
            bound[name] = fn.kwdefaults.items[name] = cap.realize(fn.kwdefaults.items[name])
    if any(name not in bound for name in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]):
        raise Mismatch


def _complaint(cap: Capture, fn: FunctionV, args: list[Value], kwargs: dict[str, Value]) -> TypeError:
    """The TypeError of CPython for such a call."""
    n = len(cap.items(fn.defaults)) if fn.defaults is not None else 0
    cells = tuple(types.CellType() for _ in fn.code.co_freevars)
    twin = types.FunctionType(fn.code, {}, fn.name, (None,) * n, cells)
    twin.__qualname__ = fn.qualname
    twin.__kwdefaults__ = dict.fromkeys(fn.kwdefaults.items) if fn.kwdefaults is not None else None
    try:
        twin(*[None] * len(args), **dict.fromkeys(kwargs))
    except TypeError as error:
        return error
    raise AssertionError(f"{fn.qualname} takes arguments that it was thought to refuse")
