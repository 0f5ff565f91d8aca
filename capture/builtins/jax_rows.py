"""Rows for what JAX offers besides computing: `jax.debug.print`, and questions about its own state.

`jax.debug.print` is said once the Graph has run, instead of a graph break. Nothing that the captured code does
meanwhile can be seen: whatever Python prints, or calls, breaks the graph, and what was to be printed before it is. Only
what cannot change until then is kept, arrays and constants. Inside functions that JAX transforms or loops over a print
is part of their call in the Graph (see `tracing.trace_call`), inside branches on arrays a side effect like others.

Is somebody tracing, under which trace, which settings hold? Capture itself traces each call of a library. What these
functions would say inside such a trace is not what the program would hear, so they are asked directly: outside every
body the top level answers, inside a body the transformation that calls it, as in eager JAX. The settings that they
read are guarded by the configuration token of every entry.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Collection
from typing import Any

import jax
from jax._src import core

from dynacomp.capture.arithmetic.operators import fold
from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.callbacks import given_below_jit
from dynacomp.capture.calls.calls import BUILTIN_METHODS, BUILTINS, call
from dynacomp.capture.kinds.attrs import NAMING
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, is_known_literal
from dynacomp.capture.values.questions import is_size, is_tuple, is_value
from dynacomp.capture.values.standing import TraceStateV
from dynacomp.capture.values.value import Value, as_python, is_changing, node_of, now

# `with jax.ensure_compile_time_eval():` computes the same values, only sooner.
BUILTINS[jax.ensure_compile_time_eval] = lambda cap: call(cap, Const(contextlib.nullcontext), [], {})
QUESTIONS = (jax.default_backend, jax.device_count, jax.local_device_count, jax.devices, jax.local_devices,
             jax.process_index, jax.process_count)


def ask(question: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """The answer of `question` here and now, as a constant."""
    return fold(cap, functools.partial(question, **{k: as_python(v) for k, v in kwargs.items()}), *args)


BUILTINS.update({q: functools.partial(ask, q) for q in QUESTIONS})


def ask_of_trace(question: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """Whether somebody traces, and under which trace. Where JAX's transformations run the frame, each of its calls
    has a trace of its own."""
    if not cap.root.traced:
        return ask(question, cap, *args, **kwargs)
    if question is core.trace_state_clean:
        return Const(False)
    if cap.bodies:
        raise Break("tracer", "the trace of a transformation that runs the caller")
    return TraceStateV()


BUILTINS.update({q: functools.partial(ask_of_trace, q) for q in (core.get_opaque_trace_state, core.trace_state_clean)})


PRINT_OPTIONS = inspect.signature(jax.debug.print).parameters.keys() - {"args", "kwargs"}


def debug_print(cap: Capture, *given: Value, **named: Value) -> Value:
    args, kwargs = given_below_jit(cap, given, named, PRINT_OPTIONS)
    said = args[0] if args else kwargs.get("fmt")
    text = as_python(said) if said is not None and is_known_literal(said) else None
    if cap.bodies or type(text) is not str or not all(map(is_settled, (*args, *kwargs.values()))):
        return library_call(cap, jax.debug.print, args, kwargs)
    fold(cap, lambda: check_format(text, len(args) - 1, kwargs.keys() - PRINT_OPTIONS))
    cap.effects.call(runtime.debug_print, args, kwargs)
    return Const(None)


def check_format(text: str, count: int, names: Collection[str]) -> None:
    """Fails where `jax.debug.print` refuses a text for so many arguments, at once: without printing it."""
    given: dict[str, Any] = dict.fromkeys(names, 0)
    jax.make_jaxpr(lambda: jax.debug.print(text, *[0] * count, **given))()


def is_settled(v: Value) -> bool:
    """Whether a Value is the same whenever Python gets it."""
    if is_tuple(v):
        return all(is_value(x) and is_settled(x) for x in v.items)
    return node_of(v) is not None or is_known_literal(v)


BUILTINS[jax.debug.print] = debug_print


def _is_constant_dim(cap: Capture, d: Value) -> Value:
    """`core.is_constant_dim(d)`: a size that changes is an int in each call, as in eager JAX."""
    return Const(True) if is_size(d) else library_call(cap, core.is_constant_dim, [d])


BUILTINS[core.is_constant_dim] = _is_constant_dim


def name_scope(make: Any, cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """`jax.named_scope(f"layer{n}")`: a name that changes from call to call is no constant that anything needs."""
    given = (*args, *kwargs.values())
    if not any(map(is_changing, given)):
        return library_call(cap, make, list(args), kwargs)
    known = [now(v) if is_changing(v) else as_python(v) for v in given]
    real = fold(cap, lambda: make(*known[:len(args)], **dict(zip(kwargs, known[len(args):]))))
    return LibraryV(make, args, kwargs, real=as_python(real))


BUILTINS.update({make: functools.partial(name_scope, make) for make in NAMING})


def enter_naming(cap: Capture, manager: LibraryV) -> Value:
    """`jax.named_scope(...).__enter__()`, as a context manager of the program's calls it."""
    manager.entered = True
    return Const(None)


def leave_naming(cap: Capture, manager: LibraryV, *error: Value) -> Value:
    """`jax.named_scope(...).__exit__(...)`."""
    manager.entered = False
    return Const(None)


BUILTIN_METHODS[LibraryV, "__enter__"] = enter_naming
BUILTIN_METHODS[LibraryV, "__exit__"] = leave_naming
