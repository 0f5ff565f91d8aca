"""`jax.pure_callback`: a call of Python that stays in the Graph.

JAX promises nothing about when, or how often, a pure callback runs, so that it can be a node, between two pieces of
compiled code. The Graph keeps the function itself: one that exists, known by its identity, or one that the captured
code makes of constants alone, which is the same in each call. Others break the graph, as do callbacks with effects
(`jax.debug.callback`, `io_callback`), since Python may look next at what they change, and one that may read what the
program has changed before.

    jax.pure_callback(lambda v: np.sort(v), x, x)
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

import jax

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changed_outside
from dynacomp.capture.symbolic.values import Const, FunctionV, Value
from dynacomp.capture.tracing.trace_call import library_call


def pure_callback(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    function = real_function(args[0]) if args else None
    if function is None:
        return library_call(cap, jax.pure_callback, list(args), kwargs)
    if changed_outside(cap):
        raise Break("effect", "a callback that may read what has changed")
    return library_call(cap, calling(function), list(args[1:]), kwargs)


def calling(function: Any) -> Any:
    """`jax.pure_callback` of one function."""
    @functools.wraps(jax.pure_callback)
    def call(result: Any, *args: Any, **kwargs: Any) -> Any:
        return jax.pure_callback(function, result, *args, **kwargs)

    return call


def real_function(value: Value) -> Any:
    """The function that a Value stands for, or None where each call may have another one."""
    if isinstance(value, Const):
        return value.value
    if not isinstance(value, FunctionV) or value.special or value.attrs or value.kwdefaults or rebinds(value.code):
        return None
    held = [*(cell.content for cell in value.closure), *(value.defaults.items if value.defaults else ())]
    if not all(isinstance(x, Const) for x in held):
        return None
    values = [x.value for x in held]
    cells = tuple(map(types.CellType, values[:len(value.closure)]))
    return types.FunctionType(value.code, value.globals, value.name, tuple(values[len(cells):]) or None, cells)


def rebinds(code: types.CodeType) -> bool:
    """Whether a function assigns to variables of the function around it."""
    return any(i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in code.co_freevars
               for i in dis.get_instructions(code))


BUILTINS[jax.pure_callback] = pure_callback
