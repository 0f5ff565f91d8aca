"""Calls of Python that JAX makes: `jax.pure_callback` stays in the Graph, `debug.callback` and `io_callback` are calls.

JAX promises nothing about when, or how often, a pure callback runs, so that it can be a node, between two pieces of
compiled code. The Graph keeps the function itself: one that exists, known by its identity, or one that the captured
code makes of constants alone, which is the same in each call. Others break the graph, and so does one that may read
what the program has changed before.

    jax.pure_callback(lambda v: np.sort(v), x, x)

A callback with effects eager JAX calls at once, with arrays, where no transformation stands between: it is entered
like any function of the program. Elsewhere it breaks the graph, since Python may look next at what it changes.

    jax.debug.callback(lambda loss: history.append(loss), loss)      # history.append(loss)

What a compiled program gives to a callback is strongly typed: to an `io_callback` always, to others below a `jax.jit`.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.calls.calls import BUILTINS, call
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changed_outside
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, is_const, is_known_literal
from dynacomp.capture.values.questions import is_graph_array, is_made_function
from dynacomp.capture.values.value import Value, type_of


def pure_callback(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    function = real_function(args[0]) if args else None
    if function is None:
        return library_call(cap, jax.pure_callback, list(args), kwargs)
    if changed_outside(cap) or cap.effects.calls:
        raise Break("effect", "a callback that may read, or be heard before, what the program has done")
    return library_call(cap, calling(function), list(args[1:]), kwargs)


def calling(function: Any) -> Any:
    """`jax.pure_callback` of one function."""
    @functools.wraps(jax.pure_callback)
    def calls(result: Any, *args: Any, **kwargs: Any) -> Any:
        return jax.pure_callback(function, result, *args, **kwargs)

    return calls


def real_function(value: Value) -> Any:
    """The function that a Value stands for, or None where each call may have another one."""
    if is_const(value):
        return value.value
    if not is_made_function(value) or value.special or value.attrs or value.kwdefaults or rebinds(value.code):
        return None
    held = [*(cell.content for cell in value.closure), *(value.defaults.items if value.defaults else ())]
    if not all(map(is_const, held)):
        return None
    values = [x.value for x in held]
    cells = tuple(map(types.CellType, values[:len(value.closure)]))
    return types.FunctionType(value.code, value.globals, value.name, tuple(values[len(cells):]) or None, cells)


def rebinds(code: types.CodeType) -> bool:
    """Whether a function assigns to variables of the function around it."""
    return any(i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in code.co_freevars
               for i in dis.get_instructions(code))


NUMBERS = (bool, int, float, complex)  # which a callback gets as arrays; it gets strings and None as they are
OPTIONS = ("ordered", "partitioned", "sharding")  # which say nothing about a call that is made at once


def debug_callback(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if not args or not may_enter(cap, args[1:], kwargs):
        return library_call(cap, jax.debug.callback, *given_below_jit(cap, args, kwargs, OPTIONS))
    entered(cap, args[0], args[1:], kwargs, jnp.asarray if not cap.effects.jitted else as_compiled)
    return Const(None)


def io(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """Its result is what NumPy makes of the callback's, which nobody compares with what was announced."""
    if len(args) < 2 or not may_enter(cap, args[2:], kwargs):
        return library_call(cap, io_callback, list(args), kwargs)
    found = entered(cap, args[0], args[2:], kwargs, as_compiled)
    if any(of_class(ArrayV, cap.items(call(cap, Const(jax.tree.leaves), [found], {})))):
        raise Break("effect", "arrays that a callback returns")
    return call(cap, Const(jax.tree.map), [Const(np.asarray), found], {})


def may_enter(cap: Capture, args: tuple[Value, ...], kwargs: dict[str, Value]) -> bool:
    """Whether eager JAX calls the function at once; nested arguments are left to JAX."""
    given = [*args, *(v for name, v in kwargs.items() if name not in OPTIONS)]
    return cap.may_break and all(is_graph_array(v) or is_number(v) or is_known_literal(v) for v in given)


def entered(cap: Capture, function: Value, args: tuple[Value, ...], kwargs: dict[str, Value], made: Any) -> Value:
    """What the callback returns; it gets what `made` makes of numbers and arrays. Where it raises Python runs it: JAX
    writes that to its log."""
    def given(value: Value) -> Value:
        seen = is_number(value) or is_graph_array(value) and made is as_compiled
        return library_call(cap, made, [value]) if seen else value

    named = {k: given(v) for k, v in kwargs.items() if k not in OPTIONS}
    try:
        return call(cap, function, [given(v) for v in args], named)
    except Raised:
        raise Break("raises", "a callback") from None


def given_below_jit(cap: Capture, args: Sequence[Value], kwargs: dict[str, Value],
                    options: Collection[str]) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a callback: in a `jax.jit(f)` that is entered they are what a compiled program would give it."""
    if not cap.effects.jitted:
        return list(args), kwargs

    def each(value: Value) -> Value:
        return call(cap, Const(jax.tree.map), [Const(as_compiled), value], {})

    return [each(v) for v in args], {k: v if k in options else each(v) for k, v in kwargs.items()}


def as_compiled(x: Any) -> Any:
    """What a callback that a compiled program calls gets for `x`, an argument: numbers are strongly typed."""
    weak = isinstance(x, (*NUMBERS, np.generic, np.ndarray)) or isinstance(x, jax.Array) and x.weak_type
    return jax.lax.convert_element_type(x, jnp.asarray(x).dtype) if weak else x


def is_number(value: Value) -> bool:
    return type_of(value) in NUMBERS


BUILTINS[jax.pure_callback] = pure_callback
BUILTINS[jax.debug.callback] = debug_callback
BUILTINS[io_callback] = io
