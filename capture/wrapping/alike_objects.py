"""Objects of JAX that say the same: jaxprs, types of arrays, shardings, which a program makes anew in each call.

What `jax.vjp` and `jax.linearize` give back, and operators that a library has made of a function, keep the jaxpr of
their trace. A program that makes them in each call and hands them to a compiled function, or has them alive where the
graph breaks, has another one each time, of which nothing can be told but what it says. `alike` compares that: the
equations, one by one, with variables by their place, and what JAX's messages call the function. Constants are the very
same objects, for who has a jaxpr may look at them. Of other objects JAX's own comparison decides.

    >>> x = jnp.ones(3)
    >>> alike(jax.make_jaxpr(jnp.sin)(x), jax.make_jaxpr(jnp.sin)(x))
    True
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.tree_util import _HashableCallableShim
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dynacomp.capture.base.classes import fields, module_name
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.numbers.told_sizes import AtSizes
from dynacomp.capture.values import sources as S
from dynacomp.capture.wrapping.builtin_subclasses import is_bare_named_tuple
from dynacomp.capture.wrapping.immutability import TREEDEF, says_constants

OF_JAX = ("jax", "jaxlib")
TRACED = (Jaxpr, ClosedJaxpr, _HashableCallableShim)  # what may differ though it says the same in short
CLOSED = (ClosedJaxpr,) if ClosedJaxpr is not Jaxpr else ()  # JAX 0.12 has one class of both
# types of arrays, and where these lie
VALUES = (jax.core.AbstractValue, jax.ShapeDtypeStruct, jax.sharding.Sharding, jax.sharding.Mesh,
          jax.sharding.AbstractMesh, jax.sharding.PartitionSpec)


@dataclass(frozen=True)
class Said(S.Source):
    """What the object at `base` says: of how many others calls had there, each counts."""

    base: S.Source

    def __repr__(self) -> str:
        return f"said({self.base!r})"


@dataclass(frozen=True, eq=False)
class AlikeAt:
    """Whether objects are alike at the sizes that the second one tells."""

    made: AtSizes

    def __call__(self, one: Any, other: Any) -> bool:
        return one is other or type(one) is type(other) and alike(self.made.like(other), other)


def is_known_by_content(obj: Any) -> bool:
    """Whether `alike` can tell more of an object than that it is the same."""
    cls = type(obj)
    return not holds_constants(obj) and (
        cls in ROWS or module_name(cls).partition(".")[0] in OF_JAX and not callable(obj))


def holds_constants(obj: Any) -> bool:
    """Whether it is a jaxpr with constants: arrays, which are others where it is made anew."""
    return type(obj) in (Jaxpr, *CLOSED) and bool(getattr(obj, "consts", ()))


def in_short(obj: Any) -> Any:
    """What an object says, so short that it can be kept; objects that are alike say the same. The program's
    classes are asked nothing, whose objects may stand in a jaxpr, as structures and rules."""
    match obj:
        case Jaxpr():
            return hash(tuple(map(_equation_in_short, obj.eqns)))
        case functools.partial():
            return hash(tuple(map(in_short, obj.args)))
        case _HashableCallableShim():
            return in_short(obj.fun)
    return repr(obj) if issubclass(type(obj), VALUES) else type(obj).__qualname__


def _equation_in_short(eqn: Any) -> tuple[Any, ...]:
    types = [(getattr(v.aval, "shape", None), str(getattr(v.aval, "dtype", ""))) for v in eqn.outvars]
    return eqn.primitive.name, *types, *(str(v.val) for v in eqn.invars if type(v) is Literal)


def alike(one: Any, other: Any) -> bool:
    if one is other:
        return True
    cls = type(one)
    if cls is not type(other):
        return False
    row = ROWS.get(cls)
    if row is not None:
        return row(one, other)
    if issubclass(cls, np.dtype):
        return bool(one == other)
    if issubclass(cls, tuple):
        return is_bare_named_tuple(cls) and _sequences(one, other)
    if is_literal(one):
        return repr(one) == repr(other)  # zeros have signs, and no NaN equals itself
    return _of_jax(one, other) if module_name(cls).partition(".")[0] in OF_JAX else False


def _of_jax(one: Any, other: Any) -> bool:
    """Two objects of a class of JAX's: by its comparison those that nothing of the program's can be in, or that C code
    has made; else by all that they hold."""
    if issubclass(type(one), (jax.Array, jax.core.Tracer)):
        return False
    held = {} if issubclass(type(one), VALUES) else _state(one)
    if not held:
        return type(one).__eq__ is not object.__eq__ and (one == other) is True
    others = _state(other)
    return held.keys() == others.keys() and all(alike(x, others[name]) for name, x in held.items())


def _state(obj: Any) -> dict[str, Any]:
    """What an object holds, but for what its class works out of that when it is asked."""
    cls = type(obj)
    return {name: x for name, x in fields(obj).items()
            if not isinstance(getattr(cls, name, None), functools.cached_property)}


def _jaxprs(one: Jaxpr, other: Jaxpr) -> bool:
    if len(one.eqns) != len(other.eqns) or one.effects != other.effects or _name(one) != _name(other):
        return False
    if not _same(getattr(one, "consts", ()), getattr(other, "consts", ())):
        return False
    places: dict[Any, Any] = {}  # the other's variable for each of this one
    return (_bound(places, one.constvars, other.constvars) and _bound(places, one.invars, other.invars)
            and all(_equations(places, a, b) for a, b in zip(one.eqns, other.eqns))
            and _read(places, one.outvars, other.outvars))


def _name(jaxpr: Jaxpr) -> Any:
    """What messages call the function."""
    return getattr(jaxpr.debug_info, "func_src_info", None)


def _equations(places: dict[Any, Any], one: Any, other: Any) -> bool:
    return (one.primitive is other.primitive and _read(places, one.invars, other.invars)
            and _tables(one.params, other.params) and one.effects == other.effects and alike(one.ctx, other.ctx)
            and _bound(places, one.outvars, other.outvars))


def _bound(places: dict[Any, Any], ours: Any, others: Any) -> bool:
    if len(ours) != len(others):
        return False
    places.update(zip(ours, others))
    return all(type(a) is type(b) and alike(a.aval, b.aval) for a, b in zip(ours, others))


def _read(places: dict[Any, Any], ours: Any, others: Any) -> bool:
    return len(ours) == len(others) and all(
        (_literals(a, b) if type(a) is Literal else places.get(a) is b) for a, b in zip(ours, others))


def _literals(one: Literal, other: Any) -> bool:
    if type(other) is not Literal or not alike(one.aval, other.aval) or type(one.val) is not type(other.val):
        return False
    if one.val is other.val:
        return True
    a, b = np.asarray(one.val), np.asarray(other.val)
    return a.dtype == b.dtype and a.shape == b.shape and not a.dtype.hasobject and a.tobytes() == b.tobytes()


def _closed(one: Any, other: Any) -> bool:
    return _same(one.consts, other.consts) and alike(one.jaxpr, other.jaxpr)


def _same(ours: Any, others: Any) -> bool:
    return len(ours) == len(others) and all(a is b for a, b in zip(ours, others))


def _sequences(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(alike, one, other))


def _tables(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return list(one) == list(other) and all(alike(x, other[name]) for name, x in one.items())


def _partials(one: Any, other: Any) -> bool:
    return alike(one.func, other.func) and _sequences(one.args, other.args) and _tables(one.keywords, other.keywords)


def _functions(one: types.FunctionType, other: types.FunctionType) -> bool:
    """Two that JAX has made, of things that are alike: rules of derivatives, kept for later."""
    if one.__code__ is not other.__code__ or one.__globals__ is not other.__globals__ or (
            one.__globals__.get("__name__", "").partition(".")[0] != "jax"):
        return False
    try:
        cells, others = ([c.cell_contents for c in fn.__closure__ or ()] for fn in (one, other))
    except ValueError:  # still empty
        return False
    return (_sequences(cells, others) and alike(one.__defaults__, other.__defaults__)
            and alike(one.__kwdefaults__, other.__kwdefaults__))


def _structures(one: Any, other: Any) -> bool:
    return says_constants(one) and says_constants(other) and one == other


ROWS: dict[type, Callable[[Any, Any], bool]] = {
    Jaxpr: _jaxprs,
    **dict.fromkeys(CLOSED, _closed),
    _HashableCallableShim: lambda one, other: alike(one.fun, other.fun),
    tuple: _sequences,
    list: _sequences,
    dict: _tables,
    functools.partial: _partials,
    types.FunctionType: _functions,
    types.MappingProxyType: _tables,
    np.ndarray: lambda one, other: False,  # its content may change
    TREEDEF: _structures,
}
