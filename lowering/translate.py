"""From a captured Graph to a primitive Graph: trace it through JAX, translate the jaxpr.

`lower` runs the captured Graph under `jax.make_jaxpr` and walks the equations:

    calls (`jit`, `custom_jvp_call`, `checkpoint`, ...)   inlined (`CALLS`)
    identities (`copy`, `stop_gradient`, ...)             dropped (`IDENTITIES`)
    composites (`integer_pow`, `split`, `clamp`, ...)     rewritten (`translate_rules.REWRITES`)
    primitives with a row in `ops.OPS`                    one node each
    all else (control flow, decompositions, callbacks)    one `extern` node, its reason kept

In the result every node is a `call_function` of an `Op`, its arguments Nodes and typed NumPy
scalars, its dims ints and SymPy; random keys are uint32 arrays. An Op of several results is
followed by `operator.getitem` nodes. Every flat output is a Node.

    >>> import jax.numpy as jnp, numpy as np
    >>> print(lower_function(lambda x: x.sum() / 2, Aval((3,), np.dtype("float32"))))
    def graph(x0: f32[3]):
        reduce_sum = reduce_sum(x0, axes=(0,), out_sharding=None)  # f32[]
        div = div(reduce_sum, np.float32(2.0))  # f32[]
        return (div,)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from dynacomp.capture import graph_interp
from dynacomp.capture.avals import Aval, as_struct, aval_of, is_numpy_dtype
from dynacomp.capture.graph import PLACEHOLDER, Builder, Graph, Node
from dynacomp.lowering.dims import SymbolicShapeError, map_dims, to_sympy
from dynacomp.lowering.ops import OPS
from dynacomp.lowering.translate_rules import CALLS, IDENTITIES, REWRITES, as_extern, key_rewrite

INLINE_CONST = 1
"""Constants of at most this many elements (scalars) become typed arguments, bigger ones `get_attr`."""


@dataclass(frozen=True)
class Fixed:
    """An output leaf that no input reaches: a Python value of the captured Graph."""

    value: Any


@dataclass(frozen=True)
class Lowered:
    """A primitive Graph with flat inputs and outputs, and how the user's outputs are built of them.

    graph: its output is a tuple of Nodes. outputs: the Avals as JAX sees them (PRNG keys not yet
    taken apart). out_tree, slots: `out_tree.unflatten` of the slots, each an index into the flat
    outputs or a `Fixed`, is what the captured Graph returned.
    """

    graph: Graph
    outputs: tuple[Aval, ...]
    out_tree: Any
    slots: tuple[int | Fixed, ...]

    def rebuild(self, flat: Any) -> Any:
        """The captured Graph's output pytree from the flat output arrays (keys wrapped)."""
        wrapped = [wrap(x, aval) for x, aval in zip(flat, self.outputs)]
        return self.out_tree.unflatten([s.value if isinstance(s, Fixed) else wrapped[s] for s in self.slots])


def wrap(x: Any, aval: Aval) -> Any:
    """A flat output as the user sees it: uint32 words become a PRNG key array where it was one."""
    if is_numpy_dtype(aval.dtype):
        return x
    return jax.random.wrap_key_data(x, impl=aval.dtype._impl.name)


def unwrap(x: Any) -> Any:
    """A flat input as the primitive Graph takes it: PRNG keys become their uint32 words."""
    return x if is_numpy_dtype(aval_of(x).dtype) else jax.random.key_data(x)


def lower(graph: Graph) -> Lowered:
    """Trace and translate a captured Graph; see the module's docstring.

    Placeholders carry Avals (ints or `_DimExpr` dims). Raises SymbolicShapeError where JAX cannot
    trace with unknown sizes, and what the user's functions raise.
    """
    leaves, tree = jax.tree.flatten(graph.output)
    live = [x for x in leaves if isinstance(x, Node)]
    flat_graph = Graph((*graph.nodes[:-1], Node("output", "output", args=(live,))), graph.consts, graph.name)
    trees: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        out, structure = jax.tree.flatten(graph_interp.run(flat_graph, *inputs))
        trees.append(structure)
        return out

    names = [n.name for n in graph.placeholders]
    closed = trace(flat, [n.aval for n in graph.placeholders])
    values = iter(trees[0].unflatten(list(range(len(closed.out_avals)))))
    whole = tree.unflatten([next(values) if isinstance(x, Node) else Fixed(x) for x in leaves])
    slots, out_tree = jax.tree.flatten(whole)
    outputs = tuple(Aval(tuple(map(to_sympy, a.shape)), a.dtype, a.weak_type) for a in closed.out_avals)
    return Lowered(translate(closed, graph.name, names), outputs, out_tree, tuple(slots))


def lower_function(fn: Callable[..., Any], *avals: Any, name: str = "graph") -> Graph:
    """The primitive Graph of a Python function of arrays, for tests.

    `avals`: Avals, ShapeDtypeStructs or example arrays, one for each positional argument (a pytree
    of them is flattened, as are the results).
    """
    structs = jax.tree.map(lambda a: as_struct(aval_of(a)), avals, is_leaf=lambda a: isinstance(a, Aval))
    flat, tree = jax.tree.flatten(structs)
    closed = trace(lambda *xs: jax.tree.leaves(fn(*tree.unflatten(xs))), list(map(aval_of, flat)))
    return translate(closed, name)


def trace(fn: Callable[..., Any], avals: list[Aval]) -> ClosedJaxpr:
    """`jax.make_jaxpr` on Avals; JAX's complaints about unknown sizes become SymbolicShapeError."""
    try:
        return jax.make_jaxpr(fn)(*map(as_struct, avals))
    except (jax.core.InconclusiveDimensionOperation, jax.errors.ShapePolymorphismError) as e:
        raise SymbolicShapeError(f"JAX cannot trace this with unknown sizes: {e}") from e


def translate(closed: ClosedJaxpr, name: str = "graph", names: list[str] | None = None) -> Graph:
    """The primitive Graph of a jaxpr; `names` are for its inputs."""
    builder = Builder(name)
    avals = [node_aval(v.aval) for v in closed.jaxpr.invars]
    names = names or [f"x{i}" for i in range(len(avals))]
    inputs = [builder.placeholder(n, a) for n, a in zip(names, avals)]
    writer = Writer(builder)
    outs = writer.inline(closed, inputs)
    outs = [writer.as_node(o, v.aval) for o, v in zip(outs, closed.jaxpr.outvars)]
    return builder.finish(tuple(outs))


def node_aval(aval: Any) -> Aval:
    """The Aval of a jaxpr variable: SymPy dims, keys as uint32 words."""
    shape, dtype = tuple(map(to_sympy, aval.shape)), aval.dtype
    if is_numpy_dtype(dtype):
        return Aval(shape, dtype, bool(aval.weak_type))
    return Aval((*shape, *dtype._impl.key_shape), np.dtype(np.uint32))


@dataclass(frozen=True)
class Writer:
    """Writes equations into a Builder. Values are Nodes or typed NumPy scalars."""

    builder: Builder

    def inline(self, closed: ClosedJaxpr, args: list[Any]) -> list[Any]:
        """The values of a jaxpr's outputs, its equations written in place."""
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))
        env.update(zip(jaxpr.constvars, map(self.constant, closed.consts)))
        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self.equation(eqn, [self.read(env, v) for v in eqn.invars])))
        return [self.read(env, v) for v in jaxpr.outvars]

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
        return value if isinstance(value, Node) else self.builder.const(np.asarray(value), node_aval(aval))

    def equation(self, eqn: Any, args: list[Any]) -> list[Any]:
        """The values of one equation's results."""
        name = eqn.primitive.name.replace("-", "_")
        if name in IDENTITIES:
            return args
        if name in CALLS:
            return self.inline(CALLS[name](eqn.params), args)
        avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
        if name in REWRITES:
            return self.retrace(REWRITES[name], eqn, args)
        if not all(is_numpy_dtype(getattr(a, "dtype", None)) for a in avals):
            return self.retrace(key_rewrite, eqn, args)
        if name in OPS:
            return self.node(name, args, eqn.params, eqn)
        return self.node("extern", args, as_extern(eqn), eqn)

    def retrace(self, rewrite: Callable[..., Any], eqn: Any, args: list[Any]) -> list[Any]:
        """Write what the JAX function `rewrite(eqn)` does on the equation's (raw) operands."""
        structs = [jax.ShapeDtypeStruct(*raw_shape(v.aval), weak_type=getattr(v.aval, "weak_type", False))
                   for v in eqn.invars]
        return self.inline(jax.make_jaxpr(rewrite(eqn))(*structs), args)

    def node(self, name: str, args: list[Any], params: Mapping[str, Any], eqn: Any) -> list[Any]:
        """One Op node, and a getitem for each result where it has several."""
        avals = tuple(node_aval(v.aval) for v in eqn.outvars)
        many = eqn.primitive.multiple_results or name == "extern"
        call = self.builder.call(OPS[name], tuple(args), map_dims(dict(params), to_sympy),
                                 avals if many else avals[0], where(eqn))
        if not many:
            return [call]
        return [self.builder.call(operator.getitem, (call, i), {}, a) for i, a in enumerate(avals)]


def raw_shape(aval: Any) -> tuple[tuple[Any, ...], Any]:
    """Shape and dtype of a jaxpr variable's array, JAX dims kept, keys as uint32 words."""
    if is_numpy_dtype(aval.dtype):
        return aval.shape, aval.dtype
    return (*aval.shape, *aval.dtype._impl.key_shape), np.dtype(np.uint32)


def where(eqn: Any) -> tuple[tuple[str, int, str], ...]:
    """The user's line of an equation, as Nodes keep it."""
    del eqn
    return ()
