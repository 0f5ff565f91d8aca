"""The Graph: a straight line of Nodes, FX-like, at both levels of the compiler.

A freshly captured Graph calls the JAX functions that the user called; a lowered Graph calls
primitives (`dynacomp.lowering.primitives.ops.Op`). Both are this one structure:

    placeholder    an input; `target` says where it comes from (a Source, or a name)
    get_attr       a constant that lives in the Graph's `consts`; `target` is its key
    call_function  `target(*args, **kwargs)`
    call_graph     the same, where an argument holds a `Closure`: a Graph used as a Python
                   callable by `grad`, `vmap`, `cond`, `while_loop`, `scan`, ...
    output         the last node; `args[0]` is any pytree of Nodes and constants

Arguments are constants, Nodes, Closures, and lists, tuples, dicts and slices of these. A Graph is
a value: passes build new ones with `Builder`.

    >>> import jax.numpy as jnp, numpy as np
    >>> b = Builder()
    >>> x = b.placeholder("x", Aval((3,), np.dtype("float32")))
    >>> y = b.call(jnp.sin, (x,), {}, x.aval)
    >>> graph = b.finish((y,))
    >>> print(graph)
    def graph(x: f32[3]):
        sin = jax.numpy.sin(x)  # f32[3]
        return (sin,)
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.printer import graph_text

PLACEHOLDER, GET_ATTR, CALL_FUNCTION, CALL_GRAPH, OUTPUT = (
    "placeholder", "get_attr", "call_function", "call_graph", "output")


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operation of a Graph; its identity is its value.

    `aval` is the Aval of the result, or a pytree of them where the target returns several arrays
    (then `operator.getitem` nodes pick them apart). `where` is the user's line: (file, line,
    function), outermost frame first. `known` is the KnownTrace of a captured call, where there is one.
    """

    op: str
    name: str
    target: Any = None
    args: tuple = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    aval: Any = None
    where: tuple[tuple[str, int, str], ...] = ()
    known: Any = None

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in order of execution: placeholders first, one `output` last.

    `consts` maps the targets of `get_attr` nodes to arrays. `name` is how it prints.
    """

    nodes: tuple[Node, ...]
    consts: Mapping[str, Any] = field(default_factory=dict)
    name: str = "graph"

    @property
    def placeholders(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.op == PLACEHOLDER)

    @property
    def output(self) -> Any:
        """The pytree of Nodes and constants that the Graph returns."""
        return self.nodes[-1].args[0]

    @property
    def calls(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.op in (CALL_FUNCTION, CALL_GRAPH))

    def __str__(self) -> str:
        return graph_text(self)


@dataclass(frozen=True, eq=False)
class Closure:
    """A Graph as a Python callable argument of a node.

    Called with `(*args, **kwargs)`, it flattens them to leaves (`jax.tree.leaves`) and runs
    `graph` on `(*captured, *leaves)`; what it returns is the graph's output pytree.
    `captured` are Nodes of the graph that holds this Closure.
    """

    graph: Graph
    captured: tuple[Any, ...] = ()
    signature: Any = None


@dataclass(frozen=True, eq=False)
class Tree:
    """A pytree object (a model, an optimiser's state) as an argument: `treedef` filled with
    `leaves`, which are Nodes and constants. given: in what a body returns, that this is no new
    object, but a part of what the body was called with."""

    treedef: Any
    leaves: tuple[Any, ...]
    given: bool = False


def map_nodes(value: Any, fn: Callable[[Node], Any]) -> Any:
    """`value` with every Node in it replaced by `fn(node)`; Closures keep their graph."""
    if is_node(value):
        return fn(value)
    if is_closure(value):
        return Closure(value.graph, tuple(map_nodes(c, fn) for c in value.captured), value.signature)
    return map_parts(value, lambda v: map_nodes(v, fn))


def map_parts(value: Any, fn: Callable[[Any], Any]) -> Any:
    """A container as arguments have them, with `fn(part)` in the place of each of its parts; what is none, itself."""
    if isinstance(value, Tree):
        return Tree(value.treedef, tuple(map(fn, value.leaves)), value.given)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple.__new__(type(value), map(fn, value))  # no code of its class runs
    if type(value) in (tuple, list):
        return type(value)(map(fn, value))
    if type(value) is dict:
        return {k: fn(v) for k, v in value.items()}
    return slice(fn(value.start), fn(value.stop), fn(value.step)) if isinstance(value, slice) else value


def is_closure(value: Any) -> TypeGuard[Closure]:
    """Whether an argument is a Graph, to be called."""
    return isinstance(value, Closure)


def is_node(value: Any) -> TypeGuard[Node]:
    """Whether an argument is computed, and no constant."""
    return isinstance(value, Node)


def node_at(node: Node, k: int = 0) -> Node | None:
    """The Node that is the k-th argument of `node`; None where that is a constant, or there is none."""
    return next(of_class(Node, node.args[k:k + 1]), None)


def nodes_in(value: Any) -> Iterator[Node]:
    """Every Node inside an argument, in order, with repetitions."""
    found: list[Node] = []
    map_nodes(value, found.append)
    return iter(found)


def closures_in(value: Any) -> Iterator[Closure]:
    """Every Closure inside an argument (not the ones inside its graph)."""
    return of_class(Closure, leaves_in(value))


def leaves_in(value: Any) -> Iterator[Any]:
    """What the containers of an argument hold, at any depth."""
    if isinstance(value, Tree):
        yield from leaves_in(value.leaves)
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from leaves_in(v)
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from leaves_in(v)
    else:
        yield value


class Builder:
    """Grows a Graph node by node, giving each a unique readable name."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.consts: dict[str, Any] = {}
        self._taken: dict[str, int] = {}

    def fresh(self, base: str) -> str:
        base = re.sub(r"\W+", "_", base).strip("_") or "v"
        if base[0].isdigit():
            base = "v" + base
        if keyword.iskeyword(base):
            base += "_"
        count = self._taken.get(base, -1) + 1
        self._taken[base] = count
        name = base if count == 0 else f"{base}_{count}"
        if count and name in self._taken:
            return self.fresh(name)
        self._taken.setdefault(name, 0)
        return name

    def append(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def placeholder(self, name: str, aval: Any, target: Any = None, where: tuple = ()) -> Node:
        """An input. Placeholders made late still print and run first (see `finish`)."""
        return self.append(Node(PLACEHOLDER, self.fresh(name), target, aval=aval, where=where))

    def const(self, value: Any, aval: Aval, name: str = "const") -> Node:
        key = self.fresh(name)
        self.consts[key] = value
        return self.append(Node(GET_ATTR, key, key, aval=aval))

    def call(self, target: Any, args: tuple, kwargs: Mapping[str, Any], aval: Any,
             where: tuple = (), name: str | None = None, known: Any = None) -> Node:
        op = CALL_GRAPH if any(True for _ in closures_in((args, kwargs))) else CALL_FUNCTION
        base = str(name or getattr(target, "__name__", type(target).__name__))
        args, kwargs = tuple(args), dict(kwargs)
        told = known and known.of(target, args, kwargs)
        return self.append(Node(op, self.fresh(base), target, args, kwargs, aval, where, told))

    def finish(self, output: Any) -> Graph:
        first = [n for n in self.nodes if n.op == PLACEHOLDER]
        rest = [n for n in self.nodes if n.op != PLACEHOLDER]
        out = Node(OUTPUT, "output", args=(output,))
        return Graph((*first, *rest, out), dict(self.consts), self.name)
