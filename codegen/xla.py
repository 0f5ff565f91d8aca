"""The XLA backend: a whole primitive Graph as one `jax.jit` program.

It takes the Graph that the other backends' Schedule came from, so it needs no loops at all, and it
runs wherever XLA does: CPU, CUDA, ROCm, TPU, and over sharded arrays. It is also the referee of the
other backends. Symbolic sizes are bound to the shapes of the arguments while JAX traces, so that one
Program serves every shape (XLA compiles once for each).

    program = compile_xla(graph, None, {})
    outputs = program(x, y)                      # a tuple of jax Arrays
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jax._src.debugging import ordered_debug_effect
from jax.extend.core import Literal, primitives

from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.graph import Graph, Node, map_nodes
from dynacomp.codegen.dims import bind_sizes, substitute
from dynacomp.lowering.primitives.control import map_bodies
from dynacomp.lowering.primitives.ops import has_effects
from dynacomp.lowering.primitives.specialise import specialise
from dynacomp.lowering.sizes.dims import map_dims


def compile_xla(graph: Graph, schedule: Any, options: Mapping[str, Any]) -> Any:
    """The Program of a primitive `graph`: the jitted callable itself, with Program's attributes.

    Called with the flat inputs it returns the tuple of flat outputs. `options["donate"]` are the
    positions of the inputs whose buffers may be reused. `schedule` is not looked at.
    """
    function = as_function(in_order(graph))
    program = jax_jit(function, donate_argnums=tuple(options.get("donate", ())))
    for name, value in _attributes(graph).items():
        setattr(program, name, value)
    return program


def _attributes(graph: Graph) -> dict[str, Any]:
    return {
        "backend": "xla",
        "source": {f"{graph.name}.py": str(graph)},
        "kernels": (graph.name,),
        "externs": (),
    }


def as_function(graph: Graph) -> Callable[..., tuple[Any, ...]]:
    """`graph` as a Python function of its flat inputs, traceable by JAX, of concrete or symbolic
    (`jax.export.symbolic_shape`) sizes; outputs get the weak types that the Graph says."""

    avals = graph.nodes[-1].aval or (None,) * len(jax.tree.leaves(graph.output))

    def run(*inputs: Any) -> tuple[Any, ...]:
        outputs = jax.tree.leaves(interpreter.run(at_sizes(graph, inputs), *inputs))
        return tuple(map(_typed, outputs, avals))

    run.__name__ = run.__qualname__ = graph.name
    return run


def in_order(graph: Graph) -> Graph:
    """`graph` with effects that happen one after the other, as in eager JAX, where there are several: XLA keeps the
    order of those alone that are said to be ordered."""
    if sum(map(has_effects, graph.calls)) < 2:
        return graph
    made: dict[Node, Node] = {}
    for node in graph.nodes:
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), made.__getitem__)
        made[node] = replace(node, args=args, kwargs=_ordered(kwargs) if has_effects(node) else kwargs)
    return replace(graph, nodes=tuple(made.values()))


def _ordered(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an `extern` node whose one equation is ordered among others."""
    closed = params["jaxpr"]
    if len(closed.jaxpr.eqns) != 1:
        return params
    eqn, values = closed.jaxpr.eqns[0], {"ordered": True, "effect": ordered_debug_effect}
    changed = eqn.params | {k: v for k, v in values.items() if k in eqn.params}

    def bind(*args: Any) -> Any:
        env = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *args)))
        found = eqn.primitive.bind(*(v.val if isinstance(v, Literal) else env[v] for v in eqn.invars), **changed)
        return [dict(zip(eqn.outvars, found)).get(v, env.get(v)) for v in closed.jaxpr.outvars]

    return params | {"jaxpr": jax.make_jaxpr(bind)(*closed.in_avals)}


def _typed(value: Any, aval: Any) -> Any:
    """An output as an array of the weak type that the Graph's output node says."""
    array = jnp.asarray(value)
    return array if aval is None else with_weak_type(array, aval.weak_type)


def with_weak_type(value: Any, weak: bool) -> Any:
    """The array `value`, weakly typed or not, whatever it was."""
    if jax.typeof(value).weak_type == weak:
        return value
    return primitives.convert_element_type_p.bind(
        value, new_dtype=np.dtype(value.dtype), weak_type=weak, sharding=None
    )


def at_sizes(graph: Graph, inputs: Sequence[Any]) -> Graph:
    """`graph` with its size symbols replaced, in every parameter, by the sizes of `inputs`.

    Raises ValueError where an input has another rank or size than its placeholder promises.
    """
    sizes = bind_sizes([p.aval.shape for p in graph.placeholders], [np.shape(x) for x in inputs])
    if not sizes:
        return graph
    if all(isinstance(n, int) for n in sizes.values()):
        return specialise(graph, {s.name: n for s, n in sizes.items()})
    return _substituted(graph, sizes)


def _substituted(graph: Graph, sizes: Mapping[Any, Any]) -> Graph:
    made: dict[Node, Node] = {}
    for node in graph.nodes:
        inner = map_nodes((node.args, dict(node.kwargs)), made.__getitem__)
        args, kwargs = map_dims(inner, lambda dim: substitute(dim, sizes))
        made[node] = replace(node, args=args, kwargs=map_bodies(kwargs, lambda body: _substituted(body, sizes)))
    return replace(graph, nodes=tuple(made.values()))
