"""Puts known sizes into a primitive Graph: symbolic Avals, parameters and extern jaxprs become static.

For what runs sizes one at a time: the interpreter (oracle), and XLA at the seam. Loop kernels take
sizes as arguments and never need it.

    >>> import numpy as np
    >>> from dynacomp.capture.graph.avals import Aval
    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> n = Scope().symbol("n", 2)
    >>> graph = lower_function(lambda x: x.reshape(-1), Aval((n, 3), np.dtype("float32")))
    >>> print(specialise(graph, {"n": 2}))
    def graph(x0: f32[2,3]):
        reshape = reshape(x0, new_sizes=(6,))  # f32[6]
        return (reshape,)  # (f32[6],)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.graph import Graph, Node, map_nodes, map_parts
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.lowering.primitives.control import map_bodies
from dynacomp.lowering.primitives.translate_rules import CALLS
from dynacomp.lowering.sizes.dims import map_aval, map_dims, read_sizes, substitute


def specialise(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """`graph` with sizes put in by name."""

    def put(dim: Any) -> Any:
        return substitute(dim, sizes)

    new: dict[Node, Node] = {}
    for node in graph.nodes:
        new[node] = replace(
            node,
            args=map_nodes(node.args, new.__getitem__),
            kwargs=_params(node, put, sizes),
            aval=None if node.aval is None else map_aval(node.aval, put),
        )
    return replace(graph, nodes=tuple(new.values()))


def _params(node: Node, put: Callable[[Any], Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    inner = map_bodies(map_dims(dict(node.kwargs), put), lambda body: specialise(body, sizes))
    return map_jaxprs(inner, lambda j: specialise_jaxpr(j, sizes))


def run(graph: Graph, *inputs: Any) -> tuple[Any, ...]:
    """A primitive Graph on arrays, by reference evaluation; sizes are read off the inputs."""
    avals = [n.aval for n in graph.placeholders]
    sizes = read_sizes(avals, [np.shape(x) for x in inputs])
    return interpreter.run(specialise(graph, sizes) if sizes else graph, *inputs)


def map_jaxprs(value: Any, fn: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Any:
    """A parameter with `fn` applied to every jaxpr in it."""
    if isinstance(value, ClosedJaxpr):
        return fn(value)
    if isinstance(value, Jaxpr):
        return fn(ClosedJaxpr(value, ())).jaxpr
    return map_parts(value, lambda v: map_jaxprs(v, fn))


def specialise_jaxpr(closed: ClosedJaxpr, sizes: Mapping[str, int]) -> ClosedJaxpr:
    """A jaxpr with sizes put in: traced again, equation by equation."""
    structs = [jax.ShapeDtypeStruct(tuple(substitute(d, sizes) for d in v.aval.shape), v.aval.dtype,
                                    weak_type=bool(getattr(v.aval, "weak_type", False)))
               for v in closed.jaxpr.invars]
    return jax.make_jaxpr(lambda *args: _evaluate(closed, args, sizes))(*structs)


def at_sizes(closed: ClosedJaxpr, carried: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """A jaxpr as a function of its inputs and of carriers, one for each size in `carried`, off all of which it reads
    the sizes that it does not know. Traced with unknown sizes, it is as it stands."""
    plain: Callable[..., list[Any]] = jaxpr_as_fun(closed)
    if not carried and not any(is_symbolic(d) for a in closed.in_avals for d in a.shape):
        return lambda *args: plain(*args[:len(closed.in_avals)])

    def call(*args: Any) -> list[Any]:
        inputs, carriers = args[:len(closed.in_avals)], args[len(closed.in_avals):]
        sizes = {str(d): n for a, x in zip(closed.in_avals, inputs) for d, n in zip(a.shape, np.shape(x))}
        sizes |= {str(size): np.shape(x)[0] for size, x in zip(carried, carriers)}
        if any(map(is_symbolic, sizes.values())):
            return plain(*inputs)
        return _evaluate(closed, inputs, sizes)

    return call


def _evaluate(closed: ClosedJaxpr, args: Any, sizes: Mapping[str, int]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(closed.jaxpr.invars, args))
    env.update(zip(closed.jaxpr.constvars, closed.consts))
    read = lambda v: v.val if isinstance(v, Literal) else env[v]
    for eqn in closed.jaxpr.eqns:
        env.update(zip(eqn.outvars, _equation(eqn, list(map(read, eqn.invars)), sizes)))
    return list(map(read, closed.jaxpr.outvars))


def _equation(eqn: Any, args: list[Any], sizes: Mapping[str, int]) -> list[Any]:
    name = eqn.primitive.name
    if name == "dim_as_value":
        return [jnp.asarray(substitute(eqn.params["dim"], sizes), eqn.outvars[0].aval.dtype)]
    if name in CALLS:
        return _evaluate(CALLS[name](eqn.params), args, sizes)
    params = map_jaxprs(map_dims(dict(eqn.params), lambda d: substitute(d, sizes)),
                        lambda j: specialise_jaxpr(j, sizes))
    out = eqn.primitive.bind(*args, **params)
    return list(out) if eqn.primitive.multiple_results else [out]
