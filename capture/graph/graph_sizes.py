"""The sizes in a Graph: its symbols, and the Graph with other sizes in their place.

    >>> import jax.numpy as jnp, numpy as np
    >>> from dynacomp.capture.graph.avals import Aval
    >>> from dynacomp.capture.graph.graph import Builder
    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> from dynacomp.capture.graph.size_evaluation import evaluate
    >>> n = Scope().symbol("n", 4)
    >>> b = Builder()
    >>> x = b.placeholder("x", Aval((n, 3), np.dtype("float32")))
    >>> y = b.call(jnp.reshape, (x, (3 * n,)), {}, Aval((3 * n,), x.aval.dtype))
    >>> graph = b.finish((y,))
    >>> symbols(graph)
    frozenset({'n'})
    >>> print(with_sizes(graph, lambda size: evaluate(size, {"n": 2})))
    def graph(x: f32[2,3]):
        reshape = jax.numpy.reshape(x, (6,))  # f32[6]
        return (reshape,)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax

from dynacomp.capture.graph.avals import is_aval
from dynacomp.capture.graph.descriptions import at_sizes, rebuilt
from dynacomp.capture.graph.graph import Graph, Node, Tree, is_closure, is_node, map_parts
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import Size, is_symbolic, names

Put = Callable[[Size], Any]


def with_sizes(graph: Graph, put: Put) -> Graph:
    """`graph`, and the bodies in it, with `put(size)` in the place of each Size."""
    made: dict[Node, Node] = {}
    for node in graph.nodes:
        args, kwargs = argument(node.args, put, made), argument(dict(node.kwargs), put, made)
        made[node] = replace(node, args=args, kwargs=kwargs, aval=aval(node.aval, put))
    return replace(graph, nodes=tuple(made.values()))


def argument(value: Any, put: Put, made: dict[Node, Node] | None = None) -> Any:
    """An argument with its Sizes replaced, and its Nodes by what `made` has for them."""
    again = lambda v: argument(v, put, made)
    if is_symbolic(value):
        return put(value)
    if is_node(value):
        return value if made is None else made[value]
    if is_closure(value):
        return replace(value, graph=with_sizes(value.graph, put), captured=tuple(map(again, value.captured)))
    if isinstance(value, Tree):
        value = replace(value, treedef=rebuilt(value.treedef, lambda held: at_sizes(held, put)))
    return map_parts(value, again)


def aval(value: Any, put: Put) -> Any:
    """An Aval, or a pytree of them, with its Sizes replaced."""
    def one(a: Any) -> Any:
        return replace(a, shape=tuple(put(d) if is_symbolic(d) else d for d in a.shape)) if is_aval(a) else a
    return one(value) if is_aval(value) else jax.tree.map(one, value, is_leaf=is_aval)


def sizes_in(*values: Any) -> Iterator[Size]:
    """Every Size in Graphs, Nodes, Avals and arguments, also in the bodies of Closures."""
    found: list[Size] = []

    def note(size: Size) -> Size:
        found.append(size)
        return size

    for value in values:
        if isinstance(value, Graph):
            with_sizes(value, note)
        elif is_node(value):
            argument((value.args, dict(value.kwargs)), note)
            aval(value.aval, note)
        else:
            aval(value, note) if is_aval(value) else argument(value, note)
    return iter(found)


def symbols(graph: Graph) -> frozenset[str]:
    """The names of the symbols that a Graph speaks of."""
    return frozenset(name for size in sizes_in(graph) for name in names(size))


def scope_of(graph: Graph) -> Scope | None:
    """The Scope of a Graph's symbolic inputs; None where all sizes are known."""
    return next((d.scope for p in graph.placeholders for d in p.aval.shape if is_symbolic(d)), None)
