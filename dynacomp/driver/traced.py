"""The program of a Graph that is called where JAX transforms a caller of the compiled function.

Its arrays are tracers, some or all of them: the Graph's operations are one primitive of JAX for each
tuple of shapes (see `lowering.autodiff.region`), whose derivatives, batches and transposes are
compiled as `pipeline.compile_graph` compiles any Graph, each when it is first run.

`staged()`, `overheard()` and `on_mesh()` tell other traces from those.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax._src.core import eval_context, eval_trace, subjaxprs, trace_ctx
from jax._src.interpreters.ad import JVPTrace, LinearizeTrace
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax.extend.core import ClosedJaxpr

from dynacomp import capture, codegen, lowering, notices
from dynacomp.capture._native import RunPlainly
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break, NeverCalled
from dynacomp.capture.base.interrupts import ours, suppressing
from dynacomp.capture.bodies.subgraphs import never_called
from dynacomp.capture.graph.avals import Aval, as_struct, aval_of
from dynacomp.capture.graph.graph import Builder, Graph, is_closure, is_node, leaves_in
from dynacomp.capture.graph.graph_sizes import scope_of, symbols
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.sizes import Size, is_symbolic
from dynacomp.capture.hosting.library_effects import forget_traces
from dynacomp.capture.hosting.outside import Outside
from dynacomp.capture.tracing.abstract_evaluation import calls_back
from dynacomp.driver.interpreted import interpreted
from dynacomp.driver.pipeline import INTERPRETER, Compiled, compile_graph, elsewhere, place
from dynacomp.driver.placed import PlacedProgram
from dynacomp.driver.rules import Acts, Rules, before, rules_in
from dynacomp.lowering.autodiff.region import TOLD_AFTER, Derived, Program, Region, Sizes, apply, closes_over_tracers
from dynacomp.lowering.primitives.specialise import at_sizes
from dynacomp.lowering.primitives.translate import masks_marked, trace, unwrap, wrap
from dynacomp.lowering.sizes.dims import SymbolicShapeError
from dynacomp.options import Options

OURS = (str(Path(__file__).parents[1]), *(p.__path__[0] for p in (capture, lowering, codegen)))
for _folder in OURS:  # "created on line ...", says JAX of tracers: of the program's
    source_info_util.register_exclusion(_folder + os.sep)

class OneWay(Exception):
    """A backward pass may be asked for that cannot be derived, while the call can still run in another way."""


MOST_CHANGES = 3  # of what rules read: from then on JAX runs them
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


def overheard() -> bool:
    """Whether a trace of another library (Quax, but JAX's `experimental.jet` and `sparse`, too) hears JAX's own
    operations, and gives them other meanings, by rules of its own."""
    trace = trace_ctx.trace
    while trace is not None and module_name(type(trace)).startswith("jax._src."):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def derivatives() -> int:
    """How often JAX differentiates what runs now: the traces for it that lie above each other."""
    trace, found = trace_ctx.trace, 0
    while trace is not None:
        found += isinstance(trace, (JVPTrace, LinearizeTrace))
        trace = getattr(trace, "parent_trace", None)
    return found


def on_mesh() -> bool:
    """Whether JAX maps what runs now over a mesh of devices (`shard_map`, or `vmap` with `spmd_axis_name`)."""
    return not jax.sharding.get_abstract_mesh().empty or bool(trace_ctx.axis_env.spmd_axis_names)


def traced_graph(graph: Graph, options: Options, places: Collection[Any], order: int = 0) -> Compiled:
    """The program of a captured Graph for tracers; arrays of several devices are left to JAX. order: how often it may
    be differentiated, where rules of the program's (`jax.custom_vjp`) stand in it."""
    if options.backend == INTERPRETER or elsewhere(places):
        run, rules = interpreted(graph), rules_in(graph)
        return Compiled(lambda *inputs: in_order(graph, run, inputs, rules), graph, backend=INTERPRETER)
    return Compiled(TracedProgram(graph, options, order), graph, backend=TRACED)


class TracedProgram:
    """A callable of flat inputs, tracers or arrays; `regions` has the primitive for each tuple of shapes and dtypes.
    Sizes that the Graph does not know, a region does not know either, while its rules do without them."""

    def __init__(self, graph: Graph, options: Options, order: int = 0) -> None:
        self.graph, self.options = graph, options
        self.order = order if lacks_rules(graph) else None
        self.run, self.own_rules = interpreted(masks_marked(graph)), rules_in(graph)
        self.live = [is_node(x) for x in jax.tree.leaves(graph.output)]
        self.symbols = symbols_of(graph)
        self.regions: dict[tuple[Aval, ...], Derived] = {}
        self.outputs: dict[tuple[Aval, ...], tuple[Aval, ...]] = {}
        self.rules = Rules()
        self.changes = 0  # how often what they read had changed
        self.lock = threading.RLock()  # for the values that the Graph's scope has, and what is decided by them
        self.one_by_one = False  # JAX must run the operations themselves: they have effects, or rules like no other's

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return in_order(self.graph, self._called, inputs, self.own_rules)

    def _called(self, *inputs: Any) -> tuple[Any, ...]:
        if self.order is not None and derivatives() > self.order:  # here, since no backward pass can start again
            plainly(self.graph, "a rule of a rule is differentiated that capture has not met")
        if overheard():
            return self.run(*inputs)
        args = tuple(map(as_array, inputs))
        self._heed_rules()
        if not self.one_by_one:
            region, key, sizes = self._region(tuple(map(aval_of, args)))
        if self.one_by_one:
            return self.run(*args)
        self.rules.forward = True
        try:
            results = apply(region, *map(unwrap, args), sizes=sizes)
        except Acts:
            self._heed_rules()
            return self.run(*args)
        except OneWay:
            return self.run(*args)
        except jax.errors.UnexpectedTracerError:  # a rule, called late, closes over what was traced with its function
            self.one_by_one = True
            return self.run(*args)
        except NeverCalled:  # `jax.custom_batching.custom_vmap`: no derivative finds its rule
            plainly(self.graph, "a rule for batches is called that capture has not met")
        finally:
            self.rules.forward = False
        found = iter(map(wrap, results, self.outputs[key]))
        leaves = jax.tree.leaves(self.graph.output)
        return tuple(next(found) if live else x for x, live in zip(leaves, self.live))

    def _one_way(self) -> None:
        """JAX reverses `lax.fori_loop(0, n, ...)` of an array `n` that is not differentiated, but not where it does not
        know the value of `n`."""
        if self.rules.forward:
            notices.tell("fallback", *place(self.graph), "only JAX may know the ends of a `fori_loop`, which it needs "
                         "for its backward pass: it runs the operations one by one",
                         hint="give lax.fori_loop Python's numbers, or use lax.scan", id="one way")
            raise OneWay

    def _heed_rules(self) -> None:
        """Derives anew where what the program's rules read has changed; leaves them to JAX where they do more than
        compute, or what they read changes from call to call."""
        if self.one_by_one or not self.rules.acts and self.rules.hold():
            return
        self.changes += 1
        why = self.rules.acts or self.changes > MOST_CHANGES and "what a rule of the program's reads changes"
        with self.lock:
            self.regions, self.rules, self.one_by_one = {}, Rules(), bool(why)
        if why:
            notices.tell("fallback", *place(self.graph), f"{why}: where JAX transforms the caller, it runs the "
                         "operations one by one", hint="pass to rules as an argument what they read")

    def _region(self, key: tuple[Aval, ...]) -> tuple[Region, tuple[Aval, ...], Sizes]:
        """The primitive of inputs with these Avals, the Avals that it was traced for, and the sizes to bind it with."""
        sizes = self._sizes(key)
        if sizes:
            unknown = tuple(replace(a, shape=p.aval.shape) for p, a in zip(self.graph.placeholders, key))
            found = self._traced(unknown, sizes)
            if found.value is not None and found.holds(sizes):
                return found.value, unknown, sizes
            if key not in self.regions and len(self.regions) == TOLD_AFTER:
                self._tell(found.why)
        return self._traced(key).value, key, ()

    def _tell(self, why: str) -> None:
        notices.tell("constant size", *place(self.graph), f"what JAX derives of this is compiled for each size: {why}",
                     hint="fix the size, pad to a few sizes, or compile the function that calls jax.grad or jax.vmap",
                     id="derived")

    def _sizes(self, key: tuple[Aval, ...]) -> Sizes:
        """The values of the Graph's symbols in a call."""
        if not self.symbols:
            return ()
        values = {d: n for p, a in zip(self.graph.placeholders, key) for d, n in zip(p.aval.shape, a.shape)}
        return tuple((str(s), values[s]) for s in self.symbols)

    def _traced(self, key: tuple[Aval, ...], sizes: Sizes = ()) -> Derived:
        with self.lock:
            if key not in self.regions:
                try:
                    self.regions[key] = self._traced_once(key, sizes)
                except SymbolicShapeError as error:
                    self.regions[key] = Derived(None, why=str(error))
            return self.regions[key]

    def _traced_once(self, key: tuple[Aval, ...], sizes: Sizes) -> Derived:
        """The region of these Avals. Random keys go in and out as words."""
        def arrays(*inputs: Any) -> list[Any]:
            results = self.run(*map(wrap, inputs, key))
            found = [x for x, live in zip(results, self.live) if live]
            self.outputs[key] = tuple(map(aval_of, found))
            return list(map(unwrap, found))

        def at(sizes: Sizes) -> Region:
            known = tuple(replace(a, shape=tuple(evaluate(d, dict(sizes)) for d in a.shape)) for a in key)
            return self._traced(known).value

        scope = self.symbols[0].scope if sizes else None
        if scope is not None:
            scope.values.update(sizes)
        with eval_context():
            closed = trace(arrays, [aval_of(jax.eval_shape(unwrap, as_struct(a))) for a in key])
        self.one_by_one = bool(closed.effects) or self._keeps_rules(closed.jaxpr) or closes_over_tracers(closed)
        made = Region(closed, self._compile, tell=self._tell, listening=self.rules.listening,
                      lasting=self.rules.serve, one_way=self._one_way, lock=self.lock)
        if scope is None:
            return Derived(made)
        return Derived(replace(made, symbols=self.symbols, origin=at), tuple(scope.relations))

    def _keeps_rules(self, jaxpr: Any) -> bool:
        """Whether it holds what JAX itself must see where it transforms: operations on types or with rules of their own
        (hijax), which it derives in one way for a backward pass and in another for tangents."""
        high = getattr(jaxpr, "is_high", False)
        if high:
            notices.tell("fallback", *place(self.graph), "it holds operations whose types or rules are the program's "
                         "(hijax): where JAX transforms the caller, it runs the operations one by one")
        return high

    def _compile(self, closed: ClosedJaxpr, carried: Sequence[Size]) -> Program:
        """Compiles what was derived of the Graph. JAX itself says so where a tangent has only a transpose."""
        if only_transposes(closed.jaxpr):
            return at_sizes(closed, carried)
        return compile_graph(graph_of(closed, self.graph, carried), self.options).program


def in_order(graph: Graph, run: Callable[..., Any], inputs: Sequence[Any], rules: tuple[FunctionType, ...]) -> Any:
    """`run(*inputs)`, which is what a Graph computes. Where JAX raises, the call starts again as plain Python, which
    raises it at its line and behind what comes before it. What rules of the program's have changed is put back."""
    outside = _before(rules)
    try:
        return run(*inputs)
    except RunPlainly:
        raise
    except ours(Exception) as error:
        if outside is None or not _only_computes(graph, inputs):
            raise
        if outside.restore():
            forget_traces()
        plainly(graph, f"JAX raises {type(error).__name__} in what was captured")


def starting_again(made: Compiled) -> Compiled:
    """The Program of a frame's Graph: where its arrays lie on devices that do not fit, JAX refuses an operation
    when it runs, which the program may catch."""
    if isinstance(made.program, PlacedProgram):
        run, graph, rules = made.program, made.graph, rules_in(made.graph)
        made.program = lambda *inputs: in_order(graph, run, inputs, rules)
    return made


def _before(rules: tuple[FunctionType, ...]) -> Outside | None:
    """What rules may change, as it is before they run; None where they do what cannot be put back."""
    try:
        return before(rules)
    except Break:
        return None


def _only_computes(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether nobody notices that a Graph is run again."""
    with eval_context(), suppressing(Exception):
        closed = jax.make_jaxpr(interpreted(graph))(*(as_struct(aval_of(as_array(x))) for x in inputs))
        return not closed.effects and not calls_back(closed.jaxpr)
    return False


def plainly(graph: Graph, why: str) -> NoReturn:
    """Starts the call again as plain Python."""
    notices.tell("fallback", *place(graph), f"{why}; the call runs as plain Python")
    raise RunPlainly


def lacks_rules(graph: Graph) -> bool:
    """Whether a function of the program's stands in it that nothing has called yet."""
    return any(leaf is never_called or is_closure(leaf) and lacks_rules(leaf.graph)
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


def symbols_of(graph: Graph) -> tuple[Size, ...]:
    """The symbols of a Graph; none where an input does not show each of them."""
    scope = scope_of(graph)
    found = [] if scope is None else [scope.symbol(name) for name in sorted(symbols(graph))]
    shown = {d for p in graph.placeholders for d in p.aval.shape if is_symbolic(d)}
    return tuple(found) if shown.issuperset(found) else ()


def graph_of(closed: ClosedJaxpr, origin: Graph, carried: Sequence[Size] = ()) -> Graph:
    """A jaxpr as a Graph with one call; its line is that of the first call in `origin`. carried: symbols that have an
    input of their own, a carrier."""
    builder = Builder(origin.name)
    avals = [Aval(a.shape, np.dtype(a.dtype), a.weak_type) for a in (*closed.in_avals, *closed.out_avals)]
    inputs = [builder.placeholder(f"x{i}", a) for i, a in enumerate(avals[:len(closed.in_avals)])]
    carriers = [builder.placeholder(f"size_{size}", Aval((size, 0), np.dtype(np.bool_))) for size in carried]
    results = avals[len(inputs):]
    file, line = place(origin)
    whole = builder.call(at_sizes(closed, carried), (*inputs, *carriers), {}, results, ((file, line, origin.name),))
    return builder.finish(tuple(builder.call(operator.getitem, (whole, i), {}, a) for i, a in enumerate(results)))
