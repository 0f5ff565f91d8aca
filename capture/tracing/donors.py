"""Calls that delete what they are given, of functions by `jax.jit(f, donate_argnums=...)`: where they do, and which.

They do where Python calls them, and where JAX evaluates what it has traced of a function with a derivative of its own,
or under `checkpoint`. What becomes part of a larger program that JAX compiles donates nothing.

An array that is given up counts as deleted: whoever reads it breaks the graph. It is deleted once the Graph has run. In
a loop that is one node (`for`: there is a first round) each round gives up what it has got, so that the loop gives up
what it begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax._src.core import jaxprs_in_params

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.kept_traces import purpose
from dynacomp.capture.bodies.subgraphs import Body
from dynacomp.capture.graph.avals import is_numpy_dtype
from dynacomp.capture.graph.graph import PLACEHOLDER, Node
from dynacomp.capture.symbolic.effects import Effect, Made, Phase
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import SETTLED
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_graph_array

# What JAX traces a function for, to compile it; and the primitives that it has then.
COMPILED = {"jit", "scan", "cond", "switch", "while_cond", "while_body", "fori_loop"}
PROGRAMS = {"jit", "pjit", "scan", "cond", "while"}


def refused(what: str) -> Break:
    return Break("donation", f"a donated array {what}")


def refuse_inside(cap: Capture, jaxpr: Any) -> bool:
    """Whether a call that stays one of a library is, or has inside, such a call; Break where it deletes arrays."""
    found = _donates(jaxpr)
    if found and not is_compiled(cap):
        raise refused("of a call that a library makes")
    return found


def _donates(jaxpr: Any) -> bool:
    return any(any(e.params.get("donated_invars", ())) or e.primitive.name not in PROGRAMS and any(
        map(_donates, jaxprs_in_params(e.params))) for e in jaxpr.eqns)


def is_compiled(cap: Capture) -> bool:
    """Whether a call at hand becomes part of a larger program: below another `jax.jit`, or in the body of a `scan`."""
    return bool(cap.effects.jitted) or any(_is_compiled(cap, b.trace) for b in cap.bodies)


def _is_compiled(cap: Capture, trace: Any) -> bool:
    while trace is not None:
        if trace not in cap.libraries.traces and purpose(trace) in COMPILED:
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


def checked(v: Any) -> ArrayV:
    """A donated array, of which it is known which one it is; Break for others."""
    if not isinstance(v, ArrayV) or not is_numpy_dtype(v.aval.dtype) or isinstance(v.real, np.ndarray):
        raise refused("that is none of JAX's, or a key")
    if v.real is not None and v.source is None:
        raise refused("that is a constant")
    if v.origin is not None and v.node.op != PLACEHOLDER:
        raise refused("that may be one of several")
    return v


def give_up(cap: Capture, given: dict[Node, ArrayV]) -> None:
    """They count as deleted, and are once the Graph has run. By their Nodes in the body at hand."""
    reals = {id(v.real): v for v in given.values() if v.real is not None}
    if any(id(v.real) in reals and v is not reals[id(v.real)] for v in _known(cap)):
        raise refused("that has two names")
    if any(v.node is not node for node, v in given.items()):
        raise refused("that each round of a loop is given")
    cap.effects.donated.update(given)
    if cap.bodies:
        cap.bodies[-1].donated.update(given)
        return
    existing = TupleV([v for v in given.values() if v.source is not None])
    made = Made(tuple(v for v in given.values() if v.source is None))
    cap.effects.calls.append(Effect(Phase.CALLS, delete, (existing, made)))


def delete(existing: tuple[Any, ...], made: tuple[Any, ...]) -> None:
    """At run time. JAX leaves an array alone while NumPy has a view of it, which nobody can ask for: here the array is
    deleted, and the view keeps its memory."""
    for array in (*existing, *made):
        array.delete()


def give_up_first(cap: Capture, body: Body, carried: Sequence[tuple[Any, Any]], results: Sequence[Any]) -> None:
    """A loop whose rounds donate gives up what it carries: (at first, in the body) and, in order, what rounds make."""
    if not body.donated:
        return
    first = {id(inside): v for v, inside in carried if is_graph_array(inside) and inside.node in body.donated}
    nodes = [v.node for v, inside in carried if is_graph_array(inside)]
    for (_, inside), result in zip(carried, results):
        if id(inside) in first and (result.op == PLACEHOLDER or sum(r is result for r in results) > 1):
            raise refused("that a round has two names for")  # or that was another one's in the round before
    given = {v.node: checked(v) for v in first.values()}
    if any(nodes.count(node) > 1 or node in body.captured for node in given):
        raise refused("that a loop has two names for")
    give_up(cap, given)


def _known(cap: Capture) -> Iterator[ArrayV]:
    """The arrays that the program was given, and has looked at."""
    return of_class(ArrayV, cap.known.arrays.values())


def _settle(cap: Capture) -> None:
    """No other array that the program was given is one of those which it gives up."""
    donated = [v.source for v in cap.effects.donated.values() if v.source is not None]
    others = [v.source for v in _known(cap) if v.node not in cap.effects.donated]
    if donated:
        cap.guards.add("all_distinct", None, tuple(donated), tuple(others))


SETTLED.append(_settle)
