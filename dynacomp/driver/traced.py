"""The program of a Graph that is called where JAX transforms a caller of the compiled function.

Its arrays are tracers, some or all of them: the Graph's operations are one primitive of JAX for each
tuple of shapes (see `lowering.autodiff.region`), whose derivatives, batches and transposes are
compiled as `pipeline.compile_graph` compiles any Graph, each when it is first run.

`staged()` and `on_mesh()` tell JAX's other traces from those.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax._src.core import eval_context, eval_trace, subjaxprs, trace_ctx
from jax._src.interpreters.ad import JVPTrace, LinearizeTrace
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from dynacomp import capture, codegen, lowering, notices
from dynacomp.capture._native import RunPlainly
from dynacomp.capture.base.errors import NeverCalled
from dynacomp.capture.graph.avals import Aval, as_struct, aval_of
from dynacomp.capture.graph.graph import Builder, Closure, Graph, Node, leaves_in
from dynacomp.capture.tracing.subgraphs import never_called
from dynacomp.driver.interpreted import interpreted
from dynacomp.driver.pipeline import INTERPRETER, Compiled, compile_graph, elsewhere, place
from dynacomp.lowering.autodiff.region import Program, Region, apply
from dynacomp.lowering.primitives.translate import unwrap, wrap
from dynacomp.options import Options

OURS = (str(Path(__file__).parents[1]), *(p.__path__[0] for p in (capture, lowering, codegen)))
for _folder in OURS:  # "created on line ...", says JAX of tracers: of the program's
    source_info_util.register_exclusion(_folder + os.sep)

TRACED = "traced"  # how records name a Graph of which derivatives and batches are compiled


def staged() -> bool:
    """Whether JAX stages what runs now as a program for XLA (`jit`, `scan`): it needs JAX's own operations. Other
    traces (`grad`, `vmap`, `jvp`, ... of a call with arrays) end in arrays."""
    trace = trace_ctx.trace
    while trace is not None and trace is not eval_trace:
        if isinstance(trace, DynamicJaxprTrace):
            return True
        trace = getattr(trace, "parent_trace", None)
    return trace is None


def derivatives() -> int:
    """How often JAX differentiates what runs now: the traces for it that lie above each other."""
    trace, found = trace_ctx.trace, 0
    while trace is not None:
        found += isinstance(trace, (JVPTrace, LinearizeTrace))
        trace = getattr(trace, "parent_trace", None)
    return found


def on_mesh() -> bool:
    """Whether JAX maps what runs now over a mesh of devices (`shard_map`)."""
    return not jax.sharding.get_abstract_mesh().empty


def traced_graph(graph: Graph, options: Options, places: Collection[Any], order: int = 0) -> Compiled:
    """The program of a captured Graph for tracers; arrays of several devices are left to JAX. order: how often it may
    be differentiated, where rules of the program's (`jax.custom_vjp`) stand in it."""
    if options.backend == INTERPRETER or elsewhere(places):
        return Compiled(interpreted(graph), graph, backend=INTERPRETER)
    return Compiled(TracedProgram(graph, options, order), graph, backend=TRACED)


class TracedProgram:
    """A callable of flat inputs, tracers or arrays; `regions` has the primitive for each tuple of shapes and dtypes."""

    def __init__(self, graph: Graph, options: Options, order: int = 0) -> None:
        self.graph, self.options = graph, options
        self.order = order if lacks_rules(graph) else None
        self.run = interpreted(graph)
        self.live = [isinstance(x, Node) for x in jax.tree.leaves(graph.output)]
        self.regions: dict[tuple[Aval, ...], Region | None] = {}
        self.outputs: dict[tuple[Aval, ...], tuple[Aval, ...]] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self.order is not None and derivatives() > self.order:  # here, since no backward pass can start again
            self._plainly("a rule of a rule is differentiated")
        args = tuple(map(as_array, inputs))
        key = tuple(map(aval_of, args))
        if key not in self.regions:
            self.regions[key] = self._region(key)
        region = self.regions[key]
        if region is None:
            return self.run(*args)
        try:
            results = apply(region, *map(unwrap, args))
        except NeverCalled:  # `jax.custom_batching.custom_vmap`: no derivative finds its rule
            self._plainly("a rule for batches is called")
        found = iter(map(wrap, results, self.outputs[key]))
        leaves = jax.tree.leaves(self.graph.output)
        return tuple(next(found) if live else x for x, live in zip(leaves, self.live))

    def _plainly(self, why: str) -> NoReturn:
        """Starts the call again as plain Python."""
        notices.tell("fallback", *place(self.graph), f"{why} that capture has not met; the call runs as plain Python")
        raise RunPlainly

    def _region(self, key: tuple[Aval, ...]) -> Region | None:
        """None where JAX must run the operations one by one: they have effects. Random keys go in and out as words."""
        def arrays(*inputs: Any) -> list[Any]:
            results = self.run(*map(wrap, inputs, key))
            found = [x for x, live in zip(results, self.live) if live]
            self.outputs[key] = tuple(map(aval_of, found))
            return list(map(unwrap, found))

        with eval_context():
            closed = jax.make_jaxpr(arrays)(*(jax.eval_shape(unwrap, as_struct(a)) for a in key))
        return None if closed.effects else Region(closed, self._compile)

    def _compile(self, closed: ClosedJaxpr) -> Program:
        """Compiles what was derived of the Graph. JAX itself says so where a tangent has only a transpose."""
        if only_transposes(closed.jaxpr):
            return jaxpr_as_fun(closed)
        return compile_graph(graph_of(closed, self.graph), self.options).program


def lacks_rules(graph: Graph) -> bool:
    """Whether a function of the program's stands in it that nothing has called yet."""
    return any(leaf is never_called or isinstance(leaf, Closure) and lacks_rules(leaf.graph)
               for node in graph.nodes for leaf in leaves_in((node.args, node.kwargs)))


def only_transposes(jaxpr: Any) -> bool:
    """Whether it holds the tangent of a `jax.custom_vjp` function: there is a rule for the backward pass alone."""
    return any(e.primitive.name == "custom_lin" for e in jaxpr.eqns) or any(map(only_transposes, subjaxprs(jaxpr)))


def as_array(x: Any) -> Any:
    """An input as JAX takes it: NumPy arrays and Python numbers become arrays."""
    if isinstance(x, jax.Array):
        return x
    with eval_context():
        return jnp.asarray(x)


def graph_of(closed: ClosedJaxpr, origin: Graph) -> Graph:
    """A jaxpr as a Graph with one call; its line is that of the first call in `origin`."""
    builder = Builder(origin.name)
    avals = [Aval(a.shape, np.dtype(a.dtype), a.weak_type) for a in (*closed.in_avals, *closed.out_avals)]
    inputs = [builder.placeholder(f"x{i}", a) for i, a in enumerate(avals[:len(closed.in_avals)])]
    results = avals[len(inputs):]
    file, line = place(origin)
    whole = builder.call(jaxpr_as_fun(closed), tuple(inputs), {}, results, ((file, line, origin.name),))
    return builder.finish(tuple(builder.call(operator.getitem, (whole, i), {}, a) for i, a in enumerate(results)))
