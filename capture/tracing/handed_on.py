"""Which arguments of a call or a jaxpr are results of it, as they are: eager JAX gives back the very array there.

    >>> import jax
    >>> same = jax.checkpoint(lambda x: x)
    >>> handed_on(jax.make_jaxpr(lambda x, y: (same(y), x + y))(1.0, 2.0).jaxpr)
    [1, None]

A tracer comes out of a function with a derivative of its own, or of one that is checkpointed, as another tracer. Where
JAX traces nothing they do no more than call the function.

Elsewhere the tracer itself says so: JAX's Python has handed it on, as it does an array (`lax.squeeze(x, ())`). Only
what a primitive gives may be a tracer that it was given, where JAX's would be another array: a jitted function that a
trace inlines, a broadcast to the same shape. Not so in the trace of a call: `always_anew`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import jax
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax.extend.core import Literal, Var
from jax.extend.core import primitives as p

from dynacomp.capture.base.classes import entries, mro
from dynacomp.capture.base.key_order import in_any_order
from dynacomp.capture.bodies.hidden_tracers import is_body
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.questions import is_dict, is_sequence
from dynacomp.capture.values.value import Value

INNER = {p.custom_jvp_call_p: "call_jaxpr", p.custom_vjp_call_p: "call_jaxpr", p.remat_p: "jaxpr"}


def handed_on(jaxpr: Any, copies: bool = False, numbers: Set[int] = frozenset()) -> list[int | None]:
    """For each result the place of the argument that it is, if it is one, or a copy of it where `copies` count.
    `numbers`: the places of those that are arrays in the trace alone."""
    places = {v: i for i, v in enumerate(jaxpr.invars)}
    arrays = [v for i, v in enumerate(jaxpr.invars) if i not in numbers]
    return [places.get(v) if isinstance(v, Var) else None for v in _came(jaxpr, arrays, copies)]


def literals(closed: Any) -> list[Any]:
    """For each result the number or NumPy array that went through equations to become it. One that none has seen is an
    array that JAX has made of it (`jnp.asarray`)."""
    consts = dict(zip(closed.jaxpr.constvars, closed.consts))
    return [None if v is out else v.val if isinstance(v, Literal) else consts.get(v)
            for v, out in zip(_came(closed.jaxpr, closed.jaxpr.invars), closed.jaxpr.outvars)]


def _came(jaxpr: Any, arrays: Sequence[Any], copies: bool = False) -> list[Any]:
    """For each result what it is, as it is: an argument or a literal; None for others. `arrays`: of the arguments."""
    came: dict[Any, Any] = {v: v for v in (*jaxpr.constvars, *jaxpr.invars)}
    known = lambda v: came.get(v) if isinstance(v, Var) else v
    for eqn in jaxpr.eqns:
        for out, place in zip(eqn.outvars, [0] if copies and eqn.primitive is p.copy_p else _through(eqn)):
            came[out] = known(eqn.invars[place]) if type(place) is int else place
            if eqn.primitive is p.device_put_p and came[out] not in arrays:
                came[out] = None  # it makes an array of a number
    return [known(v) for v in jaxpr.outvars]


def _through(eqn: Any) -> list[Any]:
    """The same for the results of one equation, with the places of its arguments. A checkpointed function is a jaxpr in
    eager JAX, too: what is a literal there comes out as a number."""
    if eqn.primitive in INNER:
        inner = eqn.params[INNER[eqn.primitive]]
        inner = getattr(inner, "jaxpr", inner)
        places = handed_on(inner)
        if eqn.primitive is p.remat_p:
            return [v if isinstance(v, Literal) else i for v, i in zip(_came(inner, inner.invars), places)]
        return places
    stays = eqn.primitive is p.stop_gradient_p or eqn.primitive is p.device_put_p and not any(
        eqn.params["devices"]) and all(how.name == "REUSE_INPUT" for how in eqn.params["copy_semantics"])
    return [i if stays else None for i in range(len(eqn.outvars))]


# --- containers and objects


def handed(cap: Capture, values: tuple, given: tuple) -> dict[int, tuple[Any, Value]]:
    """By identity the containers and objects that a call is `given`, as it sees them, each with its Value."""
    found: dict[int, tuple[Any, Value]] = {}

    def note(value: Value, real: Any) -> None:
        value = cap.realize(value)
        if type(real) is not getattr(value, "cls", None):
            return
        if not isinstance(real, tuple) or tuple.__len__(real):
            found[id(real)] = real, value
        if is_dict(value) and type(real) is dict:
            for key in in_any_order(value.items):
                note(value.items[key], real[key])
        elif is_sequence(value):
            base: Any = tuple if isinstance(real, tuple) else list
            for item, element in zip(value.items, base.__iter__(real)):  # a subclass may iterate over other things
                note(item, element)

    for value, real in zip((*values[0], *values[1].values()), (*given[0], *given[1].values())):
        note(value, real)
    return found


def handed_back(made: Any, copy: Any, given: dict[int, tuple[Any, Value]]) -> dict[int, Value]:
    """By identity the parts of `copy`, a result put together as the one that a call has `made`, that it was given."""
    if id(made) in given:
        return {id(copy): given[id(made)][1]}
    inside = zip(one_level(made), one_level(copy)) if given else ()
    return {key: value for one, other in inside for key, value in handed_back(one, other, given).items()}


def one_level(tree: Any) -> list[Any]:
    """What stands one level down in a tree: nothing in a leaf."""
    found = jax.tree_util.default_registry.flatten_one_level(tree)
    return [] if found is None else list(found[0])


def with_functions(leaves: list[Any]) -> list[Any]:
    """The leaves of a result, with the Values of functions that a call was given and has handed on, not called."""
    stands = [leaf._standin if is_body(leaf) else None for leaf in leaves]
    return [leaf if one is None or one.ways else one.value for leaf, one in zip(leaves, stands)]


def wraps(tree: Any) -> bool:
    """Whether an object in a tree says what it wraps: its names and its text are those of what stood for that."""
    return any("__wrapped__" in entries(cls) for cls in mro(type(tree))) or any(map(wraps, one_level(tree)))


# --- tracers


class Anew(DynamicJaxprTrace):
    """A trace whose primitives give no tracer that they were given, as they give no such array, but a copy."""

    __slots__ = ()

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        made = super().process_primitive(primitive, tracers, params)
        known = {id(x) for x in (*tracers, *getattr(params.get("jaxpr"), "consts", ()))}
        if not primitive.multiple_results:
            return self._copied(made) if id(made) in known else made
        return [self._copied(x) if id(x) in known else x for x in made] if not known.isdisjoint(map(id, made)) else made

    def stage_value(self, val: Any) -> Any:
        """An array that JAX makes of a number (`jnp.asarray`) is none to what it is given to."""
        made = super().stage_value(val)
        return self._copied(made) if isinstance(made.val, Literal) else made

    def _copied(self, tracer: Any) -> Any:
        return super().process_primitive(p.copy_p, (tracer,), {})


def always_anew(trace: Any) -> None:
    """Makes it such a trace, if it makes a jaxpr."""
    if type(trace) is DynamicJaxprTrace:
        trace.__class__ = Anew
