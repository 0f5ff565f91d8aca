"""Sizes that objects of JAX tell: the jaxpr of a pull, which `jax.vjp` makes anew in each call, what an array is like.

`told` lists them in the order in which they stand there; `AtSizes(obj, varying)` makes the object at other sizes: each
of the sizes `varying` is another one wherever it stands, in the shapes of variables, in what equations are told of
shapes, and as a number (`x.mean()` divides by one). A jaxpr at sizes that are not known holds expressions of them.

    >>> closed = jax.make_jaxpr(lambda x: jnp.broadcast_to(x / x.shape[0], (2, 3)))(jnp.ones(3))
    >>> told(closed)
    (3, 3, 2, 3, 2, 3)
    >>> AtSizes(closed, (3,))(5)
    { lambda ; a:f32[5]. let
        b:f32[5] = div a 5.0:f32[]
        c:f32[2,5] = broadcast_in_dim[
          broadcast_dimensions=(1,)
          shape=(2, 5)
          sharding=None
        ] b
      in (c,) }
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax._src.lax.lax import _convert_element_type
from jax._src.tree_util import _HashableCallableShim
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dynacomp.capture.base.classes import fields, module_name
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.graph.descriptions import DESCRIPTIONS
from dynacomp.capture.graph.sizes import is_symbolic

TELLING: tuple[Any, ...] = tuple({Jaxpr, ClosedJaxpr, _HashableCallableShim, *DESCRIPTIONS})
# The parameters of equations that are sizes, or tuples of them. Others are ints, too: axes.
SHAPES = {"shape", "new_sizes", "sizes", "slice_sizes", "start_indices", "limit_indices", "padding_config", "length",
          "axis_size", "operand_shape", "fft_lengths"}
OF_TREES = _HashableCallableShim.__module__, "jax._src.flattree"  # whose objects hold functions, or leaves of trees
KEPT = 16  # objects at other sizes that an AtSizes keeps: equal ones need not be made, or compared, again
Change = Callable[[Any], Any]
_TOLD = IdentityTable()  # what was asked of objects that come and go with calls: guards ask for one size after another


def told(obj: Any) -> tuple[Any, ...]:
    """The sizes that an object of `TELLING` tells."""
    if isinstance(obj, DESCRIPTIONS):
        return tuple(obj.shape)
    return _TOLD.setdefault(obj, lambda: _told(obj))


def _told(obj: Any) -> tuple[Any, ...]:
    found: list[Any] = []

    def note(size: Any) -> Any:
        found.append(size)
        return size

    _changed(obj, note, {})
    return tuple(found)


def nth_told(obj: Any, place: int) -> Any:
    return told(obj)[place]


class AtSizes:
    """Makes `obj` at other sizes than `varying`, which it tells: called with one for each of these."""

    def __init__(self, obj: Any, varying: tuple[int, ...]) -> None:
        self.obj, self.varying, self.told = obj, varying, told(obj)
        self.made: dict[tuple[int, ...], Any] = {varying: obj}

    def __call__(self, *sizes: Any) -> Any:
        if any(map(is_symbolic, sizes)):
            return self.at(sizes)
        known = self.made.get(sizes)
        if known is None:
            if len(self.made) >= KEPT:
                self.made.clear()
            known = self.made[sizes] = self.at(sizes)
        return known

    def at(self, sizes: tuple[Any, ...]) -> Any:
        others: Mapping[Any, Any] = dict(zip(self.varying, sizes))
        return _changed(self.obj, lambda size: others.get(size, size), others)

    def like(self, other: Any) -> Any:
        """The object at the sizes that `other` tells where this one tells the varying ones; None where it tells several
        for one of them, or another number of sizes."""
        found: dict[Any, Any] = {}
        theirs = told(other)
        if len(self.told) != len(theirs) or any(
                found.setdefault(n, m) != m for n, m in zip(self.told, theirs) if n in self.varying):
            return None
        return self(*(found[n] for n in self.varying))


def _changed(obj: Any, change: Change, numbers: Mapping[Any, Any]) -> Any:
    """The object with `change(size)` in the place of each size; itself where all are as they were. `numbers`: which
    numbers stand for sizes, and others for them."""
    if isinstance(obj, ClosedJaxpr) and ClosedJaxpr is not Jaxpr:
        inner = _changed(obj.jaxpr, change, numbers)
        return obj if inner is obj.jaxpr else obj.replace(jaxpr=inner)
    if isinstance(obj, Jaxpr):
        return _jaxpr(obj, change, numbers)
    if isinstance(obj, DESCRIPTIONS):
        shape = tuple(map(change, obj.shape))
        return obj if all(a is b for a, b in zip(shape, obj.shape)) else obj.update(shape=shape)
    if module_name(type(obj)) in OF_TREES:  # with those two `jax.linearize` describes what it was given, and gives
        return _holder(obj, change, numbers)
    if type(obj) is functools.partial:
        args = _changed(obj.args, change, numbers)
        return obj if args is obj.args else functools.partial(obj.func, *args, **obj.keywords)
    if type(obj) in (tuple, list):
        items = [_changed(item, change, numbers) for item in obj]
        return obj if all(a is b for a, b in zip(items, obj)) else type(obj)(items)
    return obj


def _holder(obj: Any, change: Change, numbers: Mapping[Any, Any]) -> Any:
    held = fields(obj)
    others = {name: _changed(x, change, numbers) for name, x in held.items()}
    if all(others[name] is x for name, x in held.items()):
        return obj
    made = copy.copy(obj)
    for name, x in others.items():
        object.__setattr__(made, name, x)
    return made


def _jaxpr(jaxpr: Any, change: Change, numbers: Mapping[Any, Any]) -> Any:
    variables: dict[Any, Any] = {}

    def bound(found: Any) -> list[Any]:
        variables.update((v, _variable(v, change)) for v in found)
        return [variables[v] for v in found]

    def read(v: Any) -> Any:
        return _literal(v, numbers) if isinstance(v, Literal) else variables[v]

    constvars, invars = bound(jaxpr.constvars), bound(jaxpr.invars)
    eqns: list[Any] = []
    same = True
    for eqn in jaxpr.eqns:
        operands = []
        for v in map(read, eqn.invars):
            *first, v = _spelled_out(v) if isinstance(v, Literal) and is_symbolic(v.val) else [v]
            eqns += first
            operands.append(v)
        params = {name: _parameter(name, value, change, numbers) for name, value in eqn.params.items()}
        same &= all(params[name] is value for name, value in eqn.params.items())
        same &= all(a is b for a, b in zip(operands, eqn.invars) if isinstance(b, Literal))
        eqns.append(eqn.replace(invars=operands, params=params, outvars=bound(eqn.outvars)))
    if same and all(v is w for v, w in variables.items()):
        return jaxpr
    outvars = [v if isinstance(v, Literal) else variables[v] for v in jaxpr.outvars]
    return jaxpr.replace(constvars=constvars, invars=invars, eqns=eqns, outvars=outvars)


def _variable(v: Any, change: Change) -> Any:
    aval = _changed(v.aval, change, {})
    if aval is v.aval:
        return v
    made = copy.copy(v)
    made.aval = aval
    return made


def _parameter(name: str, value: Any, change: Change, numbers: Mapping[Any, Any]) -> Any:
    if type(value) is int or is_symbolic(value):
        return change(value) if name in SHAPES else value
    if type(value) in (tuple, list):
        items = [_parameter(name, item, change, numbers) for item in value]
        return value if all(a is b for a, b in zip(items, value)) else type(value)(items)
    return _changed(value, change, numbers) if isinstance(value, TELLING) else value


def _literal(v: Any, numbers: Mapping[Any, Any]) -> Any:
    """A number that is a size, as the other size."""
    if not numbers or v.aval.shape or np.dtype(v.aval.dtype).kind not in "iuf":
        return v
    other = numbers.get(float(v.val))
    if other is None:
        return v
    return Literal(other if is_symbolic(other) else _as(v.val, other), v.aval)


def _as(number: Any, other: int) -> Any:
    """The size as JAX writes the number."""
    kind = type(number)
    if not issubclass(kind, (np.ndarray, np.generic)):
        return kind(other)
    made = np.asarray(other, number.dtype)
    if issubclass(kind, np.generic):
        return made[()]
    return made if kind is np.ndarray else kind(made, number.aval)  # JAX's own class of arrays carries the weak type


def _spelled_out(v: Any) -> Any:
    """The equations that make a number of a size that is not known, and the variable that has it."""
    made = jax.make_jaxpr(lambda: _convert_element_type(v.val, v.aval.dtype, v.aval.weak_type))().jaxpr
    return [*made.eqns, *made.outvars]
