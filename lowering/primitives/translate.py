"""From a captured Graph to a primitive Graph: trace it through JAX, translate the jaxpr.

`lower` runs the captured Graph under `jax.make_jaxpr` and walks the equations:

    calls (`jit`, `custom_jvp_call`, `checkpoint`, ...)   inlined (`CALLS`)
    identities (`copy`, `stop_gradient`, ...)             dropped (`IDENTITIES`)
    composites (`integer_pow`, `split`, `clamp`, ...)     rewritten (`translate_rules.REWRITES`)
    primitives with a row in `ops.OPS`                    one node each
    loops and branches without side effects               one node each, their bodies Graphs (`Writer.control`)
    all else (decompositions, callbacks)                  one `extern` node, its reason kept

In the result every node is a `call_function` of an `Op`, its arguments Nodes and typed NumPy
scalars, its dims ints and SymPy; random keys are uint32 arrays. An Op of several results is
followed by `operator.getitem` nodes. Every flat output is a Node.

    >>> import jax.numpy as jnp, numpy as np
    >>> print(lower_function(lambda x: x.sum() / 2, Aval((3,), np.dtype("float32"))))
    def graph(x0: f32[3]):
        reduce_sum = reduce_sum(x0, axes=(0,))  # f32[]
        div = div(reduce_sum, np.float32(2.0))  # f32[]
        return (div,)  # (f32[],)
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.avals import Aval, as_struct, aval_of, is_aval, is_numpy_dtype, key_impl
from dynacomp.capture.graph.graph import (
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Builder,
    Closure,
    Graph,
    Node,
    closures_in,
    is_closure,
    is_node,
    map_nodes,
    map_parts,
    nodes_in,
)
from dynacomp.capture.graph.silence import saying_nothing
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.lowering.primitives.control_rules import CONTROLS, Body, Control
from dynacomp.lowering.primitives.high_types import refuse_high_types
from dynacomp.lowering.primitives.liveness import needed
from dynacomp.lowering.primitives.ops import CONTROL, EXTERN, OPS, POINTWISE, Op, expressible, is_known, kept_params
from dynacomp.lowering.primitives.placing import committed, refuse_placing
from dynacomp.lowering.primitives.translate_rules import (
    APART,
    CALLS,
    EVALUATED,
    IDENTITIES,
    as_extern,
    is_key,
    mask_of,
    masked,
    raw_struct,
    rewrite_of,
)
from dynacomp.lowering.primitives.unfolding import unfolded
from dynacomp.lowering.sizes.dims import SymbolicShapeError, map_dims, to_sympy

Where = tuple[tuple[str, int, str], ...]
_MARK = re.compile(r"dynacomp_(\d+)")


@dataclass(frozen=True)
class Fixed:
    """An output leaf that no input reaches: a Python value of the captured Graph."""

    value: Any


@dataclass(frozen=True)
class Lowered:
    """A primitive Graph with flat inputs and outputs, and how the user's outputs are built of them.

    graph: its output is a tuple of Nodes. outputs: the Avals as JAX sees them (PRNG keys not yet
    taken apart). out_tree, slots: `out_tree.unflatten` of the slots, each an index into the flat
    outputs or a `Fixed`, is what the captured Graph returned. committed: the flat outputs that the program itself put
    on the device.
    """

    graph: Graph
    outputs: tuple[Aval, ...]
    out_tree: Any
    slots: tuple[int | Fixed, ...]
    committed: tuple[int, ...] = ()

    def rebuild(self, flat: Any) -> Any:
        """The captured Graph's output pytree from the flat output arrays (keys wrapped)."""
        wrapped = [wrap(x, aval) for x, aval in zip(flat, self.outputs)]
        return jax.tree.unflatten(self.out_tree, [s.value if isinstance(s, Fixed) else wrapped[s] for s in self.slots])


def wrap(x: Any, aval: Aval) -> Any:
    """A flat output as the user sees it: uint32 words become a PRNG key array where it was one."""
    if is_numpy_dtype(aval.dtype):
        return x
    return jax.random.wrap_key_data(x, impl=key_impl(aval.dtype))


def unwrap(x: Any) -> Any:
    """A flat input as the primitive Graph takes it: PRNG keys become their uint32 words."""
    return x if is_numpy_dtype(aval_of(x).dtype) else jax.random.key_data(x)


def lower(graph: Graph) -> Lowered:
    """Trace and translate a captured Graph; see the module's docstring.

    Placeholders carry Avals (ints or Sizes). Raises SymbolicShapeError where JAX cannot
    trace with unknown sizes, Placed or HighType where it is XLA's, and what the user's functions raise.
    """
    leaves, tree = jax.tree.flatten(graph.output)
    live = [*of_class(Node, leaves)]
    flat_graph = marked(graph, live)
    trees: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        out, structure = jax.tree.flatten(interpreter.run(flat_graph, *inputs))
        trees.append(structure)
        return out

    names = [n.name for n in graph.placeholders]
    closed = trace(flat, [n.aval for n in graph.placeholders])
    refuse_placing(closed.jaxpr)
    refuse_high_types(closed)
    values = iter(jax.tree.unflatten(trees[0], range(len(closed.out_avals))))
    whole = jax.tree.unflatten(tree, [next(values) if is_node(x) else Fixed(x) for x in leaves])
    slots, out_tree = jax.tree.flatten(whole)
    outputs = tuple(Aval(tuple(map(to_sympy, a.shape)), a.dtype, a.weak_type) for a in closed.out_avals)
    places = tuple(n.where for n in graph.nodes)
    return Lowered(translate(closed, graph.name, names, places), outputs, out_tree, tuple(slots),
                   committed(closed.jaxpr))


def marked(graph: Graph, output: Any) -> Graph:
    """`graph` with another output, each call under a name scope that says which node it is, so that
    the equations traced from it lead back to the user's line."""
    return _marked(graph, output, lambda i, node: f"dynacomp_{i}")


def _marked(graph: Graph, output: Any, scope_of: Callable[[int, Node], str | None]) -> Graph:
    by_old: dict[Node, Node] = {}
    for i, node in enumerate(graph.nodes[:-1]):
        args, kwargs = map_nodes(_bodies_marked((node.args, dict(node.kwargs))), by_old.__getitem__)
        target, scope = node.target, scope_of(i, node)
        if scope is not None and node.op not in (PLACEHOLDER, GET_ATTR):
            target = _under(scope, target)
        told = node.known.of(target, args, kwargs, scope) if node.known and node.known.fits(node) else None
        by_old[node] = replace(node, target=target, args=args, kwargs=kwargs, known=told)
    out = Node(OUTPUT, "output", args=(map_nodes(output, by_old.__getitem__),))
    return Graph((*by_old.values(), out), graph.consts, graph.name)


def _bodies_marked(value: Any) -> Any:
    """An argument, its bodies as `masks_marked` gives them."""
    if not is_closure(value):
        return map_parts(value, _bodies_marked)
    return Closure(masks_marked(value.graph), value.captured, value.signature)


def masks_marked(graph: Graph) -> Graph:
    """`graph`, calls that are given booleans under a name scope each: see `translate_rules.mask_of`."""
    if not _has_marks(graph):
        return graph
    return _marked(graph, graph.output, lambda i, node: f"mask_{i}" if _takes_booleans(node) else None)


def _has_marks(graph: Graph) -> bool:
    return any(_takes_booleans(n) or any(_has_marks(c.graph) for c in closures_in((n.args, dict(n.kwargs))))
               for n in graph.nodes)


def _takes_booleans(node: Node) -> bool:
    return any(getattr(n.aval, "dtype", None) == np.bool_ for n in nodes_in((node.args, dict(node.kwargs))))


def _under(scope: str, target: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.named_scope(scope):
            return target(*args, **kwargs)

    return call


def lower_function(fn: Callable[..., Any], *avals: Any, name: str = "graph") -> Graph:
    """The primitive Graph of a Python function of arrays, for tests.

    `avals`: Avals, ShapeDtypeStructs or example arrays, one for each positional argument (a pytree
    of them is flattened, as are the results).
    """
    structs = jax.tree.map(lambda a: as_struct(aval_of(a)), avals, is_leaf=is_aval)
    flat, tree = jax.tree.flatten(structs)
    closed = trace(lambda *xs: jax.tree.leaves(fn(*jax.tree.unflatten(tree, xs))), list(map(aval_of, flat)))
    return translate(closed, name)


def trace(fn: Callable[..., Any], avals: list[Aval]) -> ClosedJaxpr:
    """`jax.make_jaxpr` on Avals. What JAX warns of, it has said when the calls were captured."""
    with blaming_sizes(avals), saying_nothing(), deciding(avals):
        return jax.make_jaxpr(fn)(*map(as_struct, avals))


@contextlib.contextmanager
def our_own() -> Iterator[None]:
    """Within the block no array code is the program's: how strict that wants JAX to be has been asked."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def deciding(avals: Iterable[Any]) -> Any:
    """Within the block comparisons of symbolic sizes are decided (see `Scope`)."""
    scope = next((d.scope for a in avals for d in a.shape if is_symbolic(d)), None)
    return contextlib.nullcontext() if scope is None else scope.decides()


@contextlib.contextmanager
def blaming_sizes(avals: Iterable[Any]) -> Iterator[None]:
    """Any error while sizes are unknown becomes a SymbolicShapeError: JAX says in many ways that it
    needs a size. If the sizes are not to blame, lowering for the sizes at hand shows the error."""
    try:
        yield
    except SymbolicShapeError:
        raise
    except ours(Exception) as e:
        if not any(is_symbolic(d) for a in avals for d in a.shape):
            raise
        raise SymbolicShapeError(f"JAX cannot trace this with unknown sizes: {e}") from e


def translate(closed: ClosedJaxpr, name: str = "graph", names: list[str] | None = None,
              places: tuple[Where, ...] = ()) -> Graph:
    """The primitive Graph of a jaxpr; `names` are for its inputs, `places` see `Writer`.

    The output node's `aval` is the tuple of the outputs' Avals, the one place where their weak
    types count (passes may merge nodes that differ only in that).
    """
    builder = Builder(name)
    avals = [node_aval(v.aval) for v in closed.jaxpr.invars]
    names = names or [f"x{i}" for i in range(len(avals))]
    inputs = [builder.placeholder(n, a) for n, a in zip(names, avals)]
    writer = Writer(builder, places)
    with blaming_sizes(closed.in_avals), deciding(closed.in_avals), our_own():
        outs = writer.inline(closed, inputs)
    outs = [writer.as_node(o, v.aval) for o, v in zip(outs, closed.jaxpr.outvars)]
    graph = builder.finish(tuple(outs))
    final = replace(graph.nodes[-1], aval=tuple(node_aval(v.aval) for v in closed.jaxpr.outvars))
    return replace(graph, nodes=(*graph.nodes[:-1], final))


def node_aval(aval: Any) -> Aval:
    """The Aval of a jaxpr variable: SymPy dims, keys as uint32 words."""
    shape, dtype = tuple(map(to_sympy, aval.shape)), aval.dtype
    if is_numpy_dtype(dtype):
        return Aval(shape, dtype, bool(aval.weak_type))
    return Aval((*shape, *dtype._impl.key_shape), np.dtype(np.uint32))


@dataclass(frozen=True)
class Writer:
    """Writes equations into a Builder. Values are Nodes or typed NumPy scalars.

    `where` is the user's line of what is being written; `places` has it for each captured node. compiled: eager JAX
    compiles what is being written, the body of a `jax.jit` or of a loop. apart: it runs each equation by itself.
    """

    builder: Builder
    places: tuple[Where, ...] = ()
    where: Where = ()
    compiled: bool = False
    apart: bool = False

    def inline(self, closed: ClosedJaxpr, args: list[Any]) -> list[Any]:
        """The values of a jaxpr's outputs, its equations written in place."""
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))
        env.update(zip(jaxpr.constvars, map(self.constant, closed.consts)))
        made: dict[Any, Any] = {}
        for eqn in needed(jaxpr, jaxpr.outvars):
            writer = self.at(eqn)
            operands = mask_of(eqn, made, self.compiled) if self.compiled or not self.apart else None
            args = [self.read(env, v) for v in operands or eqn.invars]
            env.update(zip(eqn.outvars, writer.traced(masked, operands, args) if operands else writer.equation(
                eqn, args)))
            made.update(dict.fromkeys(eqn.outvars, eqn))
        return [self.read(env, v) for v in jaxpr.outvars]

    def at(self, eqn: Any) -> Writer:
        """This Writer with `where` of the equation (an inner jaxpr's equations keep their caller's)."""
        marks = _MARK.findall(str(eqn.source_info.name_stack)) if self.places else ()
        return replace(self, where=self.places[int(marks[-1])]) if marks else self

    def read(self, env: Mapping[Any, Any], var: Any) -> Any:
        return self.constant(var.val, var.aval) if isinstance(var, Literal) else env[var]

    def constant(self, value: Any, aval: Any = None) -> Any:
        """A scalar as a typed NumPy value, a bigger array as a `get_attr` node."""
        raw = np.asarray(unwrap(value), dtype=None if aval is None else node_aval(aval).dtype)
        if raw.ndim == 0:
            return raw[()]
        return self.builder.const(value if raw is value else raw, Aval(raw.shape, raw.dtype))

    def as_node(self, value: Any, aval: Any) -> Node:
        """`value` as a Node: an output that is a scalar constant becomes a `get_attr`."""
        return value if is_node(value) else self.builder.const(np.asarray(value), node_aval(aval))

    def equation(self, eqn: Any, args: list[Any]) -> list[Any]:
        """The values of one equation's results."""
        name = eqn.primitive.name.replace("-", "_")
        if not is_known(eqn.primitive):
            return self.unknown(eqn, args)
        if name in IDENTITIES:
            return args
        if name in CALLS:
            inside = replace(self, compiled=self.compiled or name not in EVALUATED, apart=self.apart or name in APART)
            return inside.inline(CALLS[name](eqn.params), args)
        if (fixed := self.fixed_branch(eqn, args)) is not None:
            return fixed
        if (rewrite := rewrite_of(eqn)) is not None:
            return self.written(rewrite, eqn, args)
        if eqn.effects:
            return self.unknown(eqn, args)
        if name in CONTROLS:
            return self.control(CONTROLS[name](eqn), args, eqn)
        if name in OPS and expressible(name, eqn.params) and not (changes_shape(eqn) or any(map(is_key, eqn.invars))):
            return self.node(OPS[name], args, eqn.params, eqn)
        return self.unknown(eqn, args)

    def unknown(self, eqn: Any, args: list[Any]) -> list[Any]:
        """An equation that nothing of ours computes: what it unfolds to, else a node for XLA."""
        if (fn := unfolded(eqn)) is not None and not any(map(is_key, (*eqn.invars, *eqn.outvars))):
            return self.written(fn, eqn, args)
        return self.node(OPS["extern"], args, as_extern(eqn, self.compiled), eqn)

    def written(self, fn: Any, eqn: Any, args: list[Any]) -> list[Any]:
        """What `fn` computes of the operands of an equation, which eager JAX compiles."""
        return self.traced(fn, eqn.invars, args)

    def traced(self, fn: Any, variables: Iterable[Any], args: list[Any]) -> list[Any]:
        """The same of other variables."""
        traced = jax.make_jaxpr(fn)(*(raw_struct(v.aval) for v in variables))
        return replace(self, compiled=True).inline(traced, args)

    def control(self, flow: Control, args: list[Any], eqn: Any) -> list[Any]:
        """A loop or branches as one node, whose bodies are Graphs of their own."""
        params = flow.params | {k: self.bodies(k, body) for k, body in flow.bodies.items()}
        return self.node(OPS[flow.op], args, map_dims(params, to_sympy), eqn)

    def bodies(self, role: str, body: Any) -> Any:
        """Bodies as Closures."""
        if type(body) is tuple:
            return tuple(self.bodies(role, b) for b in body)
        return Closure(self.body(self.builder.fresh(role), body))

    def body(self, name: str, body: Body) -> Graph:
        """A body as a Graph, its parameters those that `body` lists."""
        builder = Builder(name)
        inputs = [builder.placeholder(f"x{i}", node_aval(a)) for i, a in enumerate(body.parameters)]
        writer = replace(self, builder=builder, compiled=True)
        outs = writer.inline(body.closed, [inputs[k] for k in body.used])
        outs = [writer.as_node(o, v.aval) for o, v in zip(outs, body.closed.jaxpr.outvars)]
        return builder.finish(tuple(outs))

    def fixed_branch(self, eqn: Any, args: list[Any]) -> list[Any] | None:
        """Choices known at compile time: this platform's index, and a `cond` on a constant."""
        if eqn.primitive.name == "platform_index":
            return [np.int32(platform_index(eqn.params["platforms"]))]
        if eqn.primitive.name != "cond" or is_node(args[0]):
            return None
        branches = eqn.params["branches"]
        taken = branches[int(np.clip(args[0], 0, len(branches) - 1))]
        return replace(self, compiled=True).inline(taken, args[1:])

    def node(self, op: Op, args: list[Any], params: Mapping[str, Any], eqn: Any) -> list[Any]:
        """One Op node, and a getitem for each result where it has several."""
        avals = tuple(node_aval(v.aval) for v in eqn.outvars)
        many = eqn.primitive.multiple_results or op.kind in (CONTROL, EXTERN)
        if op.kind == POINTWISE:
            args = [self.spread(a, avals[0]) for a in args]
        kept = map_dims(kept_params(op.name, params), to_sympy)
        call = self.builder.call(op, tuple(args), kept, avals if many else avals[0], self.where)
        pick = lambda i: self.builder.call(operator.getitem, (call, i), {}, avals[i], self.where)
        return [pick(i) for i in range(len(avals))] if many else [call]

    def spread(self, arg: Any, out: Aval) -> Any:
        """An operand of a pointwise Op in the shape of its result (scalar constants stay)."""
        if not is_node(arg) or arg.aval.shape == out.shape:
            return arg
        dims = tuple(range(len(arg.aval.shape)))
        aval = Aval(out.shape, arg.aval.dtype, arg.aval.weak_type)
        return self.builder.call(OPS["broadcast_in_dim"], (arg,),
                                 {"shape": out.shape, "broadcast_dimensions": dims}, aval, self.where)


def changes_shape(eqn: Any) -> bool:
    """Whether this is an elementwise operation by its name only: a bitcast of numbers to narrower or wider ones."""
    return eqn.primitive is lax.bitcast_convert_type_p and eqn.invars[0].aval.shape != eqn.outvars[0].aval.shape


def platform_index(platforms: Any) -> int:
    """Which branch of `lax.platform_dependent` this process takes."""
    here = jax.default_backend()
    names = {"gpu": ("cuda", "rocm", "gpu")}.get(here, (here,))
    return next(i for i, p in enumerate(platforms) if p is None or set(p) & set(names))
