"""Library callables that the program makes anew for each call: `optax.adam(1e-3)`, `jax.grad(loss)`, a schedule, a
jitted function, a function with a derivative of its own. Once one was seen to be another object it is known by its
structure instead of its identity: its code, its defaults, and what its cells hold, functions among them in the same
way. Arrays and changing numbers in cells become inputs of the Graph, constants are guarded.

    tx = optax.adam(rate)       # the cells of tx.update: functions, and in theirs b1, b2, eps ... and the rate
    updates, state = tx.update(grads, state)
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax

from dynacomp.capture.base.classes import module_name, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bodies.placement import jit_places
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.hosting.rebuilt import WithAttributes, WithCells, WithFields
from dynacomp.capture.symbolic.libraries import is_host, is_library, is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_const, is_open, peek
from dynacomp.capture.values.containers import DictV, ListV, SliceV, TupleV
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import CUSTOM, items_of, realize, wrap
from dynacomp.capture.wrapping.keyed_tables import settled
from dynacomp.capture.wrapping.pytree_shells import attributes

MAX_DEPTH = 32  # of functions and tuples inside each other
Path = tuple[int, ...]  # the identities of the real objects around the one that is looked at, 0 for a Value's
INPUTS = (ArrayV, ScalarV, SizeV, LibraryV)  # what a node can take in place of a cell's content
JIT_OPTIONS = ("device", "backend", "in_shardings_leaves", "out_shardings_leaves", "donate_argnums", "static_argnums",
               "static_argnames")


@dataclass(frozen=True)
class Anew(S.Source):
    """A question: which object a function at `base` was that is known by its identity alone."""

    base: S.Source

    def __repr__(self) -> str:
        return f"anew({self.base!r})"


def by_structure(cap: Capture, fn: Const) -> Value | None:
    """What to call in place of `fn`, an open library function: a constant, where all that it holds is constant, or
    the same function around Values. None where its identity is to be guarded."""
    if not (is_open(fn) and fn.source is not None and is_library(peek(fn))) or is_host(peek(fn)):
        return None
    real, source = peek(fn), fn.source
    mark = Mark(real)
    if not cap.root.policy.scalar(source, mark):
        cap.numbers.scalars[source] = mark
        return None
    made = _made(cap, real, source, ())
    if made is None:  # one entry for each object: Python calls it where there were many
        cap.numbers.scalars[Anew(source)] = mark
        if cap.may_break and cap.root.policy.changes_often(Anew(source)):
            raise Break("call", f"{real.__qualname__}, made anew in each call around what no graph takes")
    return made


def library_object(cap: Capture, value: ObjectV) -> Value | None:
    """The same of an existing object of a pure library, of which JAX takes no leaves: `optax.MultiSteps(tx, 4)`."""
    return _object(cap, value, ()) if _is_librarys_object(value) else None


def _made(cap: Capture, real: Any, source: S.Source, path: Path) -> Value | None:
    path = (*path, id(real))
    if isinstance(real, types.FunctionType):
        return _function(cap, real, source, path)
    return (_custom if type(real) in CUSTOM else _jitted)(cap, real, source, path)


def _custom(cap: Capture, real: Any, source: S.Source, path: Path) -> Value | None:
    """A function with a derivative of its own, or a partial of JAX's: the same rules, options, arguments of the same
    functions."""
    held = {name: _structured(cap, wrap(cap, content, S.Attr(source, name)), path)
            for name, content in vars(real).items() if not name.startswith("__")}
    values = [v for v in held.values() if v is not None]
    return LibraryV(WithAttributes(_emptied(real, held), tuple(held)), tuple(values)) if len(values) == len(
        held) else None


def _emptied(real: Any, names: Iterable[str]) -> Any:
    """A copy that keeps nothing of the program's alive."""
    made = object.__new__(type(real))
    vars(made).update({name: vars(real)[name] for name in ("__name__", "__qualname__", "__module__", "__doc__")
                       if name in vars(real)} | dict.fromkeys(names))
    return made


def _jitted(cap: Capture, jitted: Any, source: S.Source, path: Path) -> Value | None:
    """What `jax.jit` has made, for the same options, of a function that is known by its structure."""
    info, names = jitted._jit_info, type(jitted._jit_info)._fields
    options = [wrap(cap, getattr(info, name), S.Item(S.Attr(source, "_jit_info"), names.index(name)))
               for name in JIT_OPTIONS]
    if not all(_is_constant(_structured(cap, option, path)) for option in options) or jit_places(jitted):
        return None
    return _structured(cap, wrap(cap, jitted.__wrapped__, S.Attr(source, "__wrapped__")), path)


def _function(cap: Capture, real: types.FunctionType, source: S.Source, path: Path) -> Value | None:
    cap.guards.add("is", S.Get(source, "__code__"), real.__code__)
    cap.guards.add("is", S.Get(source, "__globals__"), real.__globals__)
    defaults = [_structured(cap, wrap(cap, getattr(real, name), S.Get(source, name)), path)
                for name in ("__defaults__", "__kwdefaults__")]
    if not all(map(_is_constant, defaults)):
        return None
    held: dict[int, Value] = {}
    for i, cell in enumerate(real.__closure__ or ()):
        value = _content(cap, cell, S.Item(S.Get(source, "__closure__"), i), path)
        if value is None:
            return None
        if not _is_constant(value) or _stores_into_cells(real.__code__):
            held[i] = value
    return LibraryV(WithCells(real, tuple(held)), tuple(held.values())) if held else Const(real)


@remembered
def _stores_into_cells(code: types.CodeType) -> bool:
    """Whether a call changes what the function's cells hold (`nonlocal`, as Optax's schedules do with what they make
    of their arguments): tracing it would change the program's object. A copy is traced, whose cells are its own."""
    return any(i.name in ("STORE_DEREF", "DELETE_DEREF") and i.argval in code.co_freevars for i in decode(code).instrs)


def _content(cap: Capture, cell: types.CellType, source: S.Source, path: Path) -> Value | None:
    cap.guards.add("is_type", source, types.CellType)
    try:
        content = cell.cell_contents
    except ValueError:
        cap.guards.add("empty", source)
        return Const(None)
    return _structured(cap, wrap(cap, content, S.Get(source, "cell_contents")), path)


def _structured(cap: Capture, value: Value, path: Path) -> Value | None:
    """`value` without a guard on its identity, where it is a function or a tuple of them; None where that is no way,
    as for what holds itself: a function of `eqx.filter_custom_vjp` is around the object that has it as an attribute."""
    if len(path) > MAX_DEPTH:
        return None
    if is_open(value) and value.source is not None:
        real = peek(value)  # type: ignore[arg-type]
        if is_modules_own(real):
            return Const(value.value)  # type: ignore[attr-defined]
        if not is_library(real):
            return value  # it is entered
        return None if id(real) in path else _made(cap, real, value.source, path)
    row = STRUCTURED.get(type(value))
    return None if row is None else row(cap, value, path)


def _partial(cap: Capture, value: PartialV, path: Path) -> Value | None:
    path = (*path, 0)
    func = _structured(cap, value.func, path)
    args = [_structured(cap, v, path) for v in (*value.args, *value.kwargs.values())]
    if func is None or any(v is None for v in args):
        return None
    given = [v for v in args if v is not None]
    own = len(value.args)
    return PartialV(func, given[:own], dict(zip(value.kwargs, given[own:])), value.attrs)


def _method(cap: Capture, value: MethodV, path: Path) -> Value | None:
    """`jax.jit(model.apply)`: what a call of the method has of its object is guarded there. Of a function or a class
    that would be its identity."""
    return value if _structured(cap, value.func, path) is not None and not is_open(value.obj) else None


def _mark(cap: Capture, value: OpaqueV, path: Path) -> Value | None:
    """An `object()`, told by `is`."""
    if type(value.obj) is not object or value.source is None:
        return None
    cap.guards.add("is", value.source, value.obj)
    return Const(value.obj)


def _tuple(cap: Capture, value: TupleV, cls: type, real: Any, path: Path) -> Value | None:
    found = _all_structured(cap, items_of(cap, value), path)
    if found is None:
        return None
    return Const(real) if real is not None and all(map(_is_constant, found)) else TupleV(found, cls)


def _is_named_tuple(value: ObjectV) -> bool:
    """A library's own, with nothing but its items."""
    return issubclass(value.cls, tuple) and hasattr(value.cls, "_fields") and is_pure_module(
        module_name(value.cls)) and not own_dict(value.real) and not value.attrs


def _is_librarys_object(value: ObjectV) -> bool:
    return value.real is not None and value.payload is None and not value.written and is_pure_module(
        module_name(value.cls)) and jax.tree_util.all_leaves([value.real])


def _instance(cap: Capture, value: ObjectV, path: Path) -> Value | None:
    if _is_named_tuple(value):  # `optax.GradientTransformationExtraArgs`
        return _tuple(cap, value.payload, value.cls, value.real, path)
    return _object(cap, value, path) if _is_librarys_object(value) else None


def _object(cap: Capture, value: ObjectV, path: Path) -> Value | None:
    """The same class around the same attributes; itself, where these are constants: the library may hand it back, and
    the program may ask whether it is the one (`lineax.symmetric_tag in operator.tags`)."""
    if id(value.real) in path:
        return None
    inner = (*path, id(value.real))
    held = {name: _structured(cap, v, inner) for name, v in attributes(cap, value).items()}
    found = [v for v in held.values() if v is not None]
    if len(found) < len(held):
        return None
    constant = not path and all(map(_is_constant, found))
    return Const(value.real) if constant else LibraryV(WithFields(value.cls, tuple(held)), tuple(found))


def _list(cap: Capture, value: ListV, path: Path) -> Value | None:
    """The same for a list or dict (see `optax.partition`): what is traced gets a copy."""
    found = _all_structured(cap, items_of(cap, value), path) if value.cls is list else None
    return None if found is None else ListV(found)


def _dict(cap: Capture, value: DictV, path: Path) -> Value | None:
    if value.cls is not dict:
        return None
    found = _all_structured(cap, [realize(cap, v) for v in value.items.values()], path)
    return None if found is None else DictV(dict(zip(settled(value.items), found)))


def _slice(cap: Capture, value: SliceV, path: Path) -> Value | None:
    """The same for a slice, whose ends may change (`y.at[i:]`, made before the call)."""
    found = _all_structured(cap, (value.start, value.stop, value.step), path)
    if found is None:
        return None
    return Const(value.real) if value.real is not None and all(map(_is_constant, found)) else SliceV(*found)


def _all_structured(cap: Capture, held: Iterable[Value], path: Path) -> list[Value] | None:
    items = [_structured(cap, item, (*path, 0)) for item in held]
    found = [item for item in items if item is not None]
    return found if len(found) == len(items) else None


STRUCTURED: dict[type, Callable[[Capture, Any, Path], Value | None]] = {
    TupleV: lambda cap, v, path: _tuple(cap, v, v.cls, v.real, path),
    ListV: _list, DictV: _dict, SliceV: _slice, ObjectV: _instance, PartialV: _partial, MethodV: _method,
    OpaqueV: _mark, **dict.fromkeys((Const, *INPUTS), lambda cap, v, path: v)}


def is_modules_own(fn: Any) -> bool:
    """Whether a function is there only once: its module has it under its name, which `functools.wraps` may have
    given to others too."""
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    return vars(module).get(getattr(fn, "__qualname__", "")) is fn if module is not None else False


def _is_constant(value: Value | None) -> bool:
    return is_const(value) and not is_open(value)
