"""What a backward pass is given: the cheapest values from which cheap operations make all its residuals.

JAX's linearisation saves every value that a derivative rule mentions. Many are cheap functions of each
other (`tanh(x)` and `1 - tanh(x)`, a mask and the comparison behind it, a vector and its broadcast): which of
them to save is a minimum cut between what the forward pass must compute anyway and what the backward pass
needs, over the bytes that are saved (the partitioner of Chen et al. 2016 and of AOTAutograd). The region's inputs and
outputs cost nothing: they exist. Only operations that a loop does in passing are done again (CHEAP), so that
the backward pass moves fewer bytes and is no slower.

    >>> import jax, jax.numpy as jnp
    >>> closed = jax.make_jaxpr(lambda x: (jnp.tanh(x), 1 - jnp.tanh(x), jnp.broadcast_to(x, (4, 3))))(jnp.ones(3))
    >>> [str(v.aval.shape) for v in kept(closed.jaxpr, 1)]   # tanh(x), an output, and x, an input
    ['(3,)', '(3,)']
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import networkx
from jax._src import source_info_util
from jax.extend.core import Literal

from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.lowering.primitives.liveness import needed

CHEAP = frozenset({
    "abs", "add", "add_any", "and", "broadcast_in_dim", "clamp", "convert_element_type", "copy", "eq", "expand_dims",
    "floor", "ge", "gt", "imag", "integer_pow", "iota", "is_finite", "le", "lt", "max", "min", "mul", "name", "ne",
    "neg", "not", "or", "real", "reshape", "round", "select_n", "sign", "slice", "square", "squeeze", "stop_gradient",
    "sub", "transpose", "xor"})
"""Operations that cost a loop next to nothing. Divisions, roots and transcendental functions are saved instead."""
START, END = "start", "end"


def kept(jaxpr: Any, count: int) -> list[Any]:
    """The variables to give to the backward pass of a jaxpr whose results are `count` outputs and then residuals:
    its own inputs and outputs, and others, which the forward pass must save."""
    made = {id(v): e for e in jaxpr.eqns for v in e.outvars}
    free = {id(v) for v in (*jaxpr.invars, *jaxpr.constvars, *jaxpr.outvars[:count]) if not isinstance(v, Literal)}
    wanted = [v for v in jaxpr.outvars[count:] if not isinstance(v, Literal)]
    graph, variables = network(wanted, made, free)
    found: dict[int, Any] = {}
    for part in components(graph):
        _, (near, far) = networkx.minimum_cut(part, START, END)
        found |= {key: variables[key] for key, side in (n for n in near if n not in (START, END))
                  if side == "in" and (key, "out") in far}
    constants = {id(v) for v in jaxpr.constvars}
    return [v for key, v in sorted(found.items(), key=lambda kv: order(jaxpr)[kv[0]]) if key not in constants]


def network(wanted: Iterable[Any], made: dict[int, Any], free: set[int]) -> tuple[Any, dict[int, Any]]:
    """The flow network: a variable is an edge as wide as it has bytes; what is not done again hangs on the start."""
    graph, variables, waiting = networkx.DiGraph(), {}, list(wanted)
    for v in waiting:
        graph.add_edge((id(v), "out"), END)  # without a capacity: as wide as one likes
    while waiting:
        v = waiting.pop()
        if id(v) in variables:
            continue
        variables[id(v)] = v
        graph.add_edge((id(v), "in"), (id(v), "out"), capacity=0.0 if id(v) in free else size(v))
        eqn = made.get(id(v))
        if id(v) in free or eqn is None or not is_cheap(eqn):
            graph.add_edge(START, (id(v), "in"))
            continue
        for operand in eqn.invars:
            if not isinstance(operand, Literal):
                graph.add_edge((id(operand), "out"), (id(v), "in"))
                waiting.append(operand)
    return graph, variables


def components(graph: Any) -> Iterator[Any]:
    """The parts of the network that only its start and end connect: layers, as a rule, each a small problem."""
    inner = graph.subgraph([n for n in graph if n not in (START, END)])
    for nodes in networkx.weakly_connected_components(inner):
        part = graph.subgraph({*nodes, START, END})
        if START in part and END in part and part.in_degree(END) and part.out_degree(START):
            yield part


def is_cheap(eqn: Any) -> bool:
    """Whether an equation is done again rather than its results saved; a call is if all in it is."""
    inner = eqn.params.get("jaxpr") if eqn.primitive.name in ("jit", "pjit") else None
    if inner is not None:
        return all(map(is_cheap, inner.eqns)) and not getattr(inner, "consts", ())
    return eqn.primitive.name in CHEAP and not eqn.effects


def size(v: Any) -> float:
    """Bytes; a tie goes to the value nearer to the backward pass."""
    shape = [d.scope.value(d) if is_symbolic(d) else d for d in v.aval.shape]  # by the sizes at hand: a guess will do
    return float(math.prod(shape) * v.aval.dtype.itemsize) + 1.0


def order(jaxpr: Any) -> dict[int, int]:
    """The place of each variable, so that the same function is always cut alike."""
    return {id(v): i for i, v in enumerate(
        [*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars)])}


def again(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], values: Sequence[Any],
          wanted: Sequence[Any]) -> list[Any]:
    """The values of the variables `wanted`, computed from those of the variables `given`."""
    known = dict(zip(map(id, (*jaxpr.constvars, *given)), (*consts, *values)))
    for eqn in needed(jaxpr, wanted, known):
        found = bind(eqn, [read(known, v) for v in eqn.invars])
        known.update(zip(map(id, eqn.outvars), found if eqn.primitive.multiple_results else [found]))
    return [read(known, v) for v in wanted]


def bind(eqn: Any, operands: list[Any]) -> Any:
    """The equation on operands, in its own context, as `jax.core.eval_jaxpr` has it."""
    names = source_info_util.current_name_stack() + eqn.source_info.name_stack
    with source_info_util.user_context(eqn.source_info.traceback, name_stack=names), eqn.ctx.manager:
        return eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))


def read(known: dict[int, Any], v: Any) -> Any:
    return v.val if isinstance(v, Literal) else known[id(v)]
