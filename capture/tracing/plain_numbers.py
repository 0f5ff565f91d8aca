"""Calls of `jax.custom_jvp(f)` and `jax.custom_vjp(f)` that are given no array: eager JAX runs `f` then, and nothing
else, with numbers that have a dtype, and `f(2.5)` is a number of Python's.

    relu6(-1.5)                             # -1.5 * 0, as Python computes it
    eqx.filter_custom_jvp(power)(2.0, 3)    # the library's Python, around such a function

A node would have arrays in their places.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Any

import jax
import numpy as np
from jax._src.core import typeof
from jax._src.dtypes import canonicalize_value

from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.hosting.rebuilt import WithAttributes
from dynacomp.capture.symbolic.libraries import is_library
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.library_objects import WithRule, holds_user_code
from dynacomp.capture.tracing.passthrough import RAW, WITH_DTYPES, with_dtype
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, is_const, is_exactly, object_of, peek
from dynacomp.capture.values.containers import DictV, ListV, TupleV
from dynacomp.capture.values.questions import is_container, is_dict, is_function, is_library_object, is_scalar, is_tuple
from dynacomp.capture.values.value import Value, children
from dynacomp.capture.wrapping.builder import items_of, realize, wrap
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.keyed_tables import settled

NUMPYS = (np.ndarray, np.generic)


def primal(cap: Capture, fn: Value, args: list[Value]) -> tuple[Value, list[Value]] | None:
    """The function in it, or the Python of a library's object around one, and what that is given; None where JAX's own
    Python is to run. What JAX traces is traced there, too."""
    if cap.under_trace or cap.effects.jitted or not args or not all(map(_without_arrays, args)):
        return None
    if is_library_object(fn):
        inside = _inside(fn)
        return None if inside is None else (inside[0], _handed(cap, args, inside[1]))
    obj = object_of(fn)
    if type(obj) in RAW:
        has_rule = obj.jvp if type(obj) is jax.custom_jvp else obj.fwd and obj.bwd
        return (_function(cap, obj, fn), _handed(cap, args, obj.nondiff_argnums)) if has_rule and holds_user_code(
            obj.fun) else None
    call: Any = type(obj).__call__ if callable(obj) else None
    held = own_dict(obj) if issubclass(type(call), types.FunctionType) and is_library(obj) else {}
    return (Const(call), [fn, *args]) if any(type(part) is jax.custom_jvp for part in held.values()) else None


def _without_arrays(value: Value) -> bool:
    """Whether an argument is a number that is known or changes, another constant, a function, or holds nothing else."""
    if is_container(value):
        return all(map(_without_arrays, children(value)))
    return is_scalar(value) or is_function(value) or is_const(value) and not issubclass(type(peek(value)), NUMPYS)


def _function(cap: Capture, obj: Any, fn: Value) -> Value:
    return from_python(cap, obj.fun) if fn.source is None else wrap(cap, obj.fun, S.Attr(fn.source, "fun"))


def _inside(fn: LibraryV) -> tuple[Value, Collection[int]] | None:
    """The function in what the captured code has made, or in a copy by structure, and the places of the arguments that
    have no derivative."""
    made = fn.make
    while type(made) is WithRule:
        made = made.make
    if type(made) is WithAttributes and type(made.obj) in RAW:
        held = dict(zip(made.names, fn.args))
        return (held["fun"], object_of(held.get("nondiff_argnums")) or ()) if "fun" in held else None
    if made not in RAW or made is fn.make:
        return None
    return fn.args[0], object_of(fn.kwargs.get("nondiff_argnums")) or ()


def _handed(cap: Capture, args: list[Value], as_they_are: Collection[int]) -> list[Value]:
    return [arg if i in as_they_are else _with_dtypes(cap, arg) for i, arg in enumerate(args)]


def _with_dtypes(cap: Capture, value: Value) -> Value:
    """A number, or those in a container, as JAX hands them on."""
    if is_scalar(value) and type(value.hint) in WITH_DTYPES:
        aval = typeof(value.hint)
        return with_dtype(value, WITH_DTYPES[type(value.hint)], aval.dtype, aval)
    if is_exactly(value, *WITH_DTYPES):
        return from_python(cap, canonicalize_value(object_of(value)))
    if is_dict(value):
        held = [_with_dtypes(cap, realize(cap, v)) for v in value.items.values()]
        return DictV(dict(zip(settled(value.items), held)))
    if not is_container(value):
        return value
    items = [_with_dtypes(cap, item) for item in items_of(cap, value)]
    return TupleV(items, value.cls) if is_tuple(value) else ListV(items)  # type: ignore[attr-defined]
