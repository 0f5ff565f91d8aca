"""Whether a frame may ever compute with JAX: nothing that it reads, that this holds, or that the functions and classes
in its sight read in turn, is an array or a library's that works with JAX.

A frame without any (a tokenizer, a replay buffer, an environment in NumPy) is left to Python at its first graph break
(see `dynacomp.idle`). What comes from elsewhere, a context variable, say, counts as an array; nothing of the program's
runs for the look.

    >>> words = lambda text: [w.title() for w in text.split()]
    >>> leads_to_jax(words.__code__, words, ("a b",)), leads_to_jax(words.__code__, words, (jax.numpy.ones(2),))
    (False, True)
"""

from __future__ import annotations

import contextvars
import gc
import itertools
import sys
import threading
from collections.abc import Iterable, Iterator
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import module_name, mro
from dynacomp.capture.bytecode.drivers import SEGMENTS
from dynacomp.capture.bytecode.generator_plan import plan_at
from dynacomp.capture.bytecode.stretches import places_of
from dynacomp.capture.stretched import instructions_before, values_read
from dynacomp.capture.symbolic.libraries import is_pure_module, module_of
from dynacomp.filters import works_with_jax

MOST, WIDTH = 2048, 50  # objects that one look takes; items of a container
PLAIN = (int, float, bool, complex, str, bytes, bytearray, type(None), range, slice, np.dtype, CodeType)
OPEN = (jax.Array, jax.core.Tracer, contextvars.ContextVar, threading.local, FrameType)  # nobody knows what comes of it
SUSPENDED = (GeneratorType, CoroutineType, AsyncGeneratorType)
QUIET = frozenset(sys.stdlib_module_names) | {"numpy", "scipy"}  # their own code computes nothing with JAX


def leads_to_jax(code: CodeType, fn: Any, args: Iterable[Any], resumes: Iterable[CodeType] = ()) -> bool:
    """Whether a call of `fn`, whose code is `code`, may compute with JAX before it arrives at one of `resumes`."""
    places = places_of(code, resumes)
    read, inner, names = tuple(values_read(code, fn, tuple(args), places)), [], set()
    for instr in instructions_before(code, places):
        inner += [instr.argval] if type(instr.argval) is CodeType else []
        names |= {instr.argval} if type(instr.argval) is str else set()
    return any(map(is_pure_module, names)) or finds([*read, *(x for c in inner for x in read_by(c, fn.__globals__))])


def finds(values: Iterable[Any]) -> bool:
    """Whether anything of JAX is among the values or behind them, or too much to say."""
    todo, seen = list(values), {}
    while todo:
        x = todo.pop()
        if type(x) in PLAIN or id(x) in seen:
            continue
        seen[id(x)] = x
        if len(seen) > MOST or is_of_jax(x):
            return True
        todo += behind(x)
    return False


def is_of_jax(x: Any) -> bool:
    """Whether a frame that has this may compute with JAX, or nobody knows what comes of it."""
    kind = type(x)
    if kind is ModuleType:
        return not is_quiet(x.__name__) and works_with_jax(x.__name__)
    if issubclass(kind, OPEN) or is_pure_module(module_name(kind)):
        return True
    if kind is np.ndarray:
        return x.dtype.hasobject
    return kind is FunctionType and is_pure_module(module_of(x)) or issubclass(kind, type) and is_pure_module(
        module_name(x))


def is_quiet(module: Any) -> bool:
    return type(module) is str and module.partition(".")[0] in QUIET


def behind(x: Any) -> Iterable[Any]:
    """What a frame may read of an object, or run by it."""
    kind = type(x)
    if kind is FunctionType:
        own = [] if is_quiet(module_of(x)) else read_by(x.__code__, x.__globals__)
        return [*own, x.__closure__, x.__defaults__, x.__kwdefaults__, x.__dict__]
    if issubclass(kind, type):
        return [v for cls in mro(x) if not is_quiet(module_name(cls)) for v in list(vars(cls).values())]
    if kind is ModuleType:
        return ()
    if kind in (list, tuple, set, frozenset):
        return itertools.islice(x, WIDTH)
    if kind is dict:
        return itertools.islice(x.values(), WIDTH)
    if kind is BuiltinFunctionType:
        return () if type(x.__self__) is ModuleType else (x.__self__,)
    if kind in SUSPENDED:
        return behind_suspended(x)
    return [kind, *gc.get_referents(x)]


def behind_suspended(x: Any) -> Iterable[Any]:
    """The same of a generator or coroutine. In place of one of the program's a driver of ours may run."""
    plan, _ = plan_at(x)
    original = None if plan is None else plan.original()
    code, frame = (getattr(x, NAMES[type(x)] + end) for end in ("_code", "_frame"))
    if frame is None:
        return ()
    held = [v for v in gc.get_referents(x) if v is not frame] if original is None else [
        v for name, v in frame.f_locals.items() if name != SEGMENTS]
    return [*held, *read_by(original or code, frame.f_globals)]


NAMES = {GeneratorType: "gi", CoroutineType: "cr", AsyncGeneratorType: "ag"}


def read_by(code: CodeType, outer: dict[str, Any]) -> Iterator[Any]:
    """What the global names mean that a function of this code, and those that it defines, may read."""
    for name in code.co_names:
        if name in outer:
            yield outer[name]
        elif is_pure_module(name):  # it imports it
            yield jax
    for const in code.co_consts:
        if type(const) is CodeType:
            yield from read_by(const, outer)
