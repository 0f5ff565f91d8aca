"""What JAX does not look for: it stands in bound methods, closures and partials.

An object that a library's call makes and that keeps arrays there only exists under a trace: it is no tree of
Values, but a node that makes it anew. A function that keeps a generator of random numbers there is not pure.
"""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import entries, own_dict
from dynacomp.capture.values.constant import is_const
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import is_plain_instance

DRAWN = (random.Random, np.random.RandomState, np.random.Generator, np.random.BitGenerator, Iterator)
KEEPING = (types.FunctionType, types.MethodType, functools.partial, tuple)
METHODS_IN_C = (types.BuiltinMethodType, types.MethodWrapperType, type(np.random.RandomState.rand))


def hides_tracers(tree: Any, since: int, apart: Iterable[Any] = ()) -> bool:
    """Whether the tree holds tracers, or captured bodies; those that were its leaves have been replaced, or are set
    `apart`. What was there `since` (see `Value.serial`) a call began, such as the optimiser in a state that it is given
    and hands back, is as the program has it, whatever has become of it in this trace."""
    return _hides(tree, _is_of_trace, since, apart)


def made_of_trace(fn: Any) -> bool:
    """Whether a function is one that a library has made while it traces: it keeps tracers, or a captured body."""
    made = isinstance(fn, (types.FunctionType, types.MethodType, functools.partial)) and not is_body(fn)
    return made and _hides(fn, _is_of_trace)


def continues_trace(fn: Any) -> bool:
    """Whether a library's function goes on with the trace that it was made in, as what `register_vmappable` hands to
    its functions: such a trace is no other call's."""
    return issubclass(type(fn), types.FunctionType) and any(
        issubclass(type(held), jax.core.Trace) for held in _insides(fn))


def draws(fn: Any) -> bool:
    """Whether a library's function keeps what gives something else each time: a generator of random numbers, one of
    its methods, an iterator."""
    todo, seen = [fn], set[int]()
    while todo:
        obj = todo.pop()
        if isinstance(getattr(obj, "__self__", None) if type(obj) in METHODS_IN_C else obj, DRAWN):
            return True
        if id(obj) not in seen and issubclass(type(obj), KEEPING):
            seen.add(id(obj))
            todo.extend(_insides(obj))
    return False


def is_drawn_from(obj: Any) -> bool:
    """Whether an object holds one of those, anywhere: in attributes, in what its bound methods belong to, in cells."""
    return _hides(obj, lambda held: issubclass(type(held), DRAWN))


def _is_of_trace(obj: Any) -> bool:
    return issubclass(type(obj), jax.core.Tracer) or is_body(obj)


def is_body(obj: Any) -> bool:
    """Whether JAX has this function in place of the program's."""
    return isinstance(obj, types.FunctionType) and "_standin" in vars(obj)


def _hides(tree: Any, found: Callable[[Any], bool], since: int = 0, apart: Iterable[Any] = ()) -> bool:
    todo: list[Any] = [tree]
    seen: dict[int, Any] = {id(obj): obj for obj in apart}
    while todo:
        obj = todo.pop()
        if id(obj) in seen:
            continue
        if found(obj):
            return True
        seen[id(obj)] = obj
        if not (issubclass(type(obj), Value) and _was_there(obj, since)):
            todo.extend(_insides(obj))
    return False


def _was_there(value: Value, since: int) -> bool:
    """Whether a Value was made before, or stands for a function that existed, which a body may be the first to read."""
    return value.serial < since or is_const(value) and value.source is not None


def _insides(obj: Any) -> Iterable[Any]:
    for cls in (tuple, list):
        if issubclass(type(obj), cls):
            return [*cls.__iter__(obj)]  # a subclass's own length and order say nothing of what it holds
    if type(obj) is dict:
        return obj.values()
    if issubclass(type(obj), types.MethodType):
        return (obj.__self__,)
    if issubclass(type(obj), types.FunctionType):
        return [cell.cell_contents for cell in obj.__closure__ or () if cell != types.CellType()]
    if issubclass(type(obj), functools.partial):
        return (obj.func, *obj.args, *obj.keywords.values())
    return [*own_dict(obj).values(), *_methods(type(obj))] if is_plain_instance(obj) else ()


def _methods(cls: type) -> Iterable[Any]:
    """The functions of a class that a function has made, with what that had in its variables."""
    for held in entries(cls).values() if "<locals>" in cls.__qualname__ else ():
        yield from (held.fget, held.fset, held.fdel) if isinstance(held, property) else (
            getattr(held, "__func__", held),)
