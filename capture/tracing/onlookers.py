"""Who sees what a call of a library is given, and whether a function of the program's is among them.

JAX takes a tree apart and puts it together: what stands beside the leaves, and in which order a dict has its entries,
is nobody's affair there. A function of the program's that a library calls may ask.

    jax.value_and_grad(loss)(params)        # is_for_jax: loss gets another dict, whose keys are in order
    tx.update(grads, state, params)         # by_name: Optax goes through its trees by `jax.tree.map`
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.symbolic.libraries import (
    has_user_call,
    is_compiled,
    is_host,
    is_library,
    is_named,
    is_user_function,
    module_of,
)
from dynacomp.capture.tracing.lowered_parts import OBJECT_CALLS
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.questions import is_function, is_library_object, is_object
from dynacomp.capture.values.value import Value, children
from dynacomp.capture.wrapping.immutability import is_python_class

MAX_NESTING = 6

JAXS = {"jax", "jaxlib", "builtins", "_operator", "operator"}  # modules whose functions look into no objects


def is_for_jax(fn: Any, args: Sequence[Value]) -> bool:
    """Whether JAX alone sees what a call is given, and what the program's functions give back in it: it takes objects
    apart and puts them together. No function of another library runs, which may look at them."""
    return all(map(_is_jaxs, of_class(_Callee, _callees(fn, args))))


def by_name(fn: Any, args: Sequence[Value]) -> int:
    """How many arguments, from the first, are such that nobody sees in which order the dicts in them stand: only JAX
    runs, and libraries that promise it; a function of the program's only below what puts its arguments together anew.
    (`jax.named_call`, a `Partial` hand on what they are given, as `jax.grad` does what it does not differentiate by.)
    """
    found = [*_callees(fn, args)]
    callees = [*of_class(_Callee, found)]
    if len(callees) < len(found):
        grads = [x for x in callees if any(x.obj is g for g in GRADS)]
        if not all(any(x.obj is known for known in (*GRADS, *TRANSFORMS)) for x in callees):
            return 0
        made = args[0] if args and module_of(fn) == OBJECT_CALLS else None
        return ALL if not grads else 2 if is_library_object(made) and not {"argnums"} & {*made.kwargs} and (
            len(made.args) == 1) else 0
    return ALL if all(_is_jaxs(x) or is_named(str(module_of(x.obj))) and not holds_user_code(x.obj)
                      for x in callees) else 0


ALL = 1 << 30
GRADS = (jax.grad, jax.value_and_grad)  # of a call of what they make, the first argument
TRANSFORMS = (jax.jit, jax.vmap, jax.jvp, jax.vjp, jax.linearize, jax.checkpoint, jax.lax.scan, jax.lax.cond,
              jax.lax.switch, jax.lax.while_loop, jax.lax.fori_loop, jax.lax.map)


@dataclass(frozen=True)
class _Callee:
    """What a library runs in a call, or may call."""

    obj: Any


def _is_jaxs(found: _Callee) -> bool:
    return str(module_of(found.obj)).partition(".")[0] in JAXS


def _callees(fn: Any, args: Sequence[Value]) -> Iterator[_Callee | Value]:
    """What runs in a call, as far as that can be told: what is a library's, and the program's functions, as Values."""
    todo: list[Any] = [*args, *([] if module_of(fn) == OBJECT_CALLS else [Const(fn)])]
    while todo:
        value = todo.pop()
        if is_library_object(value):
            todo += [Const(value.make), *value.args, *value.kwargs.values()]
        elif is_const(value):
            obj = peek(value)
            if is_user_function(obj):
                yield value
            elif callable(obj):
                yield _Callee(obj)
        elif is_object(value):
            if callable(value.real) and is_library(value.cls):
                yield _Callee(value.cls)
        else:
            if is_function(value):
                yield value
            todo += [*of_class(Value, children(value)), *of_class(Value, [getattr(value, "func", None)])]


def holds_user_code(obj: Any, depth: int = 0) -> bool:
    """Whether calling this library object may call a user's Python function."""
    if depth > MAX_NESTING or is_host(obj):
        return False
    if is_users(obj):
        return True
    return any(holds_user_code(part, depth + 1) for _, part in parts_of(obj))


def is_users(obj: Any) -> bool:
    """Whether calling it enters code of the program."""
    return is_user_function(obj) or is_compiled(obj) or is_python_class(type(obj)) and has_user_call(type(obj))


def parts_of(obj: Any) -> list[tuple[Any, Any]]:
    """(key, object) for the places where a library callable may keep other callables."""
    if issubclass(type(obj), types.FunctionType) and is_library(obj):
        return [(i, c) for i, c in enumerate(map(_content, obj.__closure__ or ()))
                if callable(c) or type(c) in (tuple, list)]
    if type(obj) in (tuple, list):
        return [(i, x) for i, x in enumerate(obj) if callable(x) or type(x) is tuple]
    if issubclass(type(obj), functools.partial):
        return [("func", obj.func)]
    if issubclass(type(obj), types.MethodType):
        return [("__self__", obj.__self__), ("__func__", obj.__func__)]
    if type(obj).__name__ == "PjitFunction":
        return [("__wrapped__", obj.__wrapped__)]
    if type(obj) is functools._lru_cache_wrapper:  # its function is the library's, its methods are functools'
        return []
    if not issubclass(type(obj), type) and is_library(obj) and hasattr(obj, "__dict__"):
        return [(k, v) for k, v in vars(obj).items() if callable(v) and k != "__wrapped__"]
    return []


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
