"""What JAX has made of a call when it was captured, kept with its node.

To find the shapes of a call's results, capture has JAX trace it. Later the Graph is traced whole: below a derivative,
and when it is lowered. The function would run again each time, all of a Flax model in Python; the equations that are
known say the same, and are bound in its place, as `jax.jit` does with what it has traced.

They say it only for what they were made for: tracers (arrays that are there are computed with, in the function) of the
very shapes, dtypes and weak types; nothing but arrays and literals in containers as the result; no effects; and no
rules for derivatives or batches but JAX's own, for others may hold on to the tracers of their first run.

    >>> import jax, jax.numpy as jnp
    >>> from dynacomp.capture.graph.avals import aval_of
    >>> closed = jax.make_jaxpr(jnp.sin)(jnp.ones(3))
    >>> known = known_trace(closed, aval_of(jnp.ones(3)))
    >>> jax.make_jaxpr(lambda x: known.again([x]))(jnp.ones(3))
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from jax._src.core import ShapedArray, Tracer, eval_jaxpr, subjaxprs, typeof
from jax._src.interpreters.partial_eval import dce_jaxpr
from jax.extend.core import ClosedJaxpr, Literal

from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.graph.avals import is_aval
from dynacomp.capture.graph.graph import Node, map_parts, nodes_in

JAX = str(Path(jax.__file__).parent / "_")[:-1]  # the folder with its separator: `jaxopt` is another library
MAKES_RULES = "custom_derivatives.py"  # of what it is given: `jax.custom_gradient`
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()


@dataclass(frozen=True, eq=False)
class KnownTrace:
    """closed: the equations; their inputs are the arrays among the call's arguments (`inputs_of`). result: the
    pytree that the call gives, an Aval for each array; places: of each, by identity, which of the outputs it is.
    call: the target, arguments and keyword arguments that it is known for, by identity: of a node that a pass has made
    of another nothing is known. scope: the name scope to bind the equations in."""

    closed: ClosedJaxpr
    result: Any
    places: dict[int, int]
    call: tuple[Any, ...] = ()
    scope: str | None = None

    def of(self, target: Any, args: tuple, kwargs: Mapping[str, Any], scope: str | None = None) -> KnownTrace:
        """The same, for a node of this call; under a name scope of JAX."""
        return replace(self, call=(target, args, kwargs), scope=scope)

    def fits(self, node: Node) -> bool:
        """Whether the node is the call that is known."""
        return all(map(operator.is_, self.call, (node.target, node.args, node.kwargs)))

    def again(self, inputs: Sequence[Any]) -> Any:
        """What the call gives for these inputs; UNKNOWN where only the function can tell."""
        if not any(isinstance(x, Tracer) for x in inputs):
            return UNKNOWN
        if [*map(typeof, inputs)] != self.closed.in_avals:
            return UNKNOWN
        with contextlib.nullcontext() if self.scope is None else jax.named_scope(self.scope):
            made = eval_jaxpr(self.closed.jaxpr, self.closed.consts, *inputs)
        return self._filled(self.result, made)

    def _filled(self, part: Any, made: list[Any]) -> Any:
        if is_aval(part):
            return made[self.places[id(part)]]
        return map_parts(part, lambda p: self._filled(p, made))


def known_trace(closed: ClosedJaxpr, result: Any) -> KnownTrace | None:
    """The trace of a call that gives this tree; None where it may not stand for the function."""
    jaxpr, avals = closed.jaxpr, [*filter(is_aval, jax.tree.leaves(result, is_leaf=is_aval))]
    places = {id(aval): i for i, aval in enumerate(avals)}
    if len(places) != len(jaxpr.outvars) or not _is_plain(result):
        return None
    if jaxpr.effects or any(isinstance(v, Literal) for v in jaxpr.outvars) or not _has_steady_rules(jaxpr):
        return None
    if any(isinstance(c, Tracer) for c in closed.consts) or not all(map(_is_steady, closed.in_avals)):
        return None
    return KnownTrace(closed, result, places)


def inputs_of(args: Any) -> list[Node]:
    """The arrays among a node's arguments, each once, in order; not the objects that libraries have made."""
    return [n for n in dict.fromkeys(nodes_in(args)) if n.aval is not None]


def without_dead(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The equations that the results need: a derivative has computed some of the function's, too."""
    needed, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(needed, closed.consts)


def has_rules(jaxpr: Any) -> bool:
    """Whether functions of Python's are in it: callbacks, and what JAX runs to derive a call with rules of its own."""
    return any(e.primitive.name.startswith("custom_") or any(map(_is_called, e.params.values()))
               for e in jaxpr.eqns) or any(map(has_rules, subjaxprs(jaxpr)))


def _is_called(param: Any) -> bool:
    return callable(param) and not isinstance(param, (type, jax.sharding.Mesh))


def _has_steady_rules(jaxpr: Any) -> bool:
    """Whether functions with rules of their own in it are such as JAX defines once and for all (`jax.nn.relu`)."""
    return all(map(_is_jaxs, (e for e in jaxpr.eqns if e.primitive.name.startswith("custom_")))) and all(
        map(_has_steady_rules, subjaxprs(jaxpr)))


def _is_jaxs(eqn: Any) -> bool:
    bodies = [getattr(p, "jaxpr", None) for p in eqn.params.values()]
    files = [body.debug_info.func_filename or "" for body in bodies if body is not None]
    return bool(files) and all(f.startswith(JAX) and not f.endswith(MAKES_RULES) for f in files)


def _is_plain(result: Any) -> bool:
    """Whether a tree is arrays and literals in containers of Python's."""
    parts = result.values() if type(result) is dict else result if isinstance(result, (tuple, list)) else None
    if parts is None or is_literal(result):
        return is_aval(result) or is_literal(result)
    known = type(result) in (dict, tuple, list) or hasattr(result, "_fields")
    return known and all(map(_is_plain, parts))


def _is_steady(aval: Any) -> bool:
    return type(aval) is ShapedArray and all(type(d) is int for d in aval.shape)
