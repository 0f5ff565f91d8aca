"""Calls of `jax.custom_jvp(f)` and `jax.custom_vjp(f)` where eager JAX runs `f`, and nothing else.

Given no array, `f` gets numbers that have a dtype, and `f(2.5)` is a number of Python's; a node would have arrays in
their places. Given arrays that nobody traces, `f` may look at what is in them, which no node can: where one has failed
for that, the next attempt enters `f`.

    relu6(-1.5)                             # -1.5 * 0, as Python computes it
    eqx.filter_custom_jvp(power)(2.0, 3)    # the library's Python, around such a function
    solve(x)                                # if not jnp.isfinite(x).all(): raise ValueError
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
from dynacomp.capture.base.errors import Break, Restart
from dynacomp.capture.hosting.rebuilt import WithAttributes
from dynacomp.capture.symbolic.libraries import is_library, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing.library_objects import WithRule
from dynacomp.capture.tracing.lowered_args import OBJECT_CALLS
from dynacomp.capture.tracing.onlookers import holds_user_code
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
from dynacomp.capture.wrapping.ndarrays import holds_numpy

NUMPYS = (np.ndarray, np.generic)


def primal(cap: Capture, fn: Value, args: list[Value]) -> tuple[Value, list[Value]] | None:
    """The function in it, or the Python of a library's object around one, and what that is given; None where JAX's own
    Python is to run. What JAX traces is traced there, too."""
    bare = cap.progress.steps in cap.lessons.bare or all(map(_without_arrays, args))
    return _inner(cap, fn, args) if args and bare else None


def enter_bare(cap: Capture, fn: Any, refused: Exception, step: int) -> None:
    """Restart where the call at hand, of such a function, is no node because it looks at what its arrays hold: it is
    entered then."""
    args, kwargs = cap.libraries.arguments[-1]
    called, given = (args[0], args[1:]) if module_of(fn) == OBJECT_CALLS else (Const(fn), args)
    if isinstance(refused, Break) and refused.kind in LOOKS and not kwargs and not any(
            holds_numpy(cap, arg) for arg in given) and _inner(cap, called, given) is not None:
        cap.lessons.bare.add(step)
        raise Restart


LOOKS = ("branch", "concrete", "leaves")


def _inner(cap: Capture, fn: Value, args: list[Value]) -> tuple[Value, list[Value]] | None:
    if cap.under_trace or cap.effects.jitted:
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


OPERATIONS.enter_bare = enter_bare
