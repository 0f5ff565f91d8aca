"""Graphs of trees without the classes that the captured code makes: each call has others, and what JAX computes of a
tree does not depend on its class. A tuple of its parts stands where such an object does.

    value_and_grad(loss)(P(w=%ones, b=%zeros))  →  value_and_grad(loss)((%ones, %zeros))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.bodies.lossy_trees import is_function_like
from dynacomp.capture.graph.graph import Closure, Graph, Node, Tree, is_closure, is_node, map_nodes, map_parts
from dynacomp.capture.symbolic.libraries import module_of

REGISTRY = jax.tree_util.default_registry
BLIND = ("jax", "operator", "_operator", "dynacomp")  # whose functions take trees apart, and look at nothing else


def nameless(graph: Graph, is_made: Callable[[type], bool]) -> Graph:
    """`graph` without the classes of which `is_made` says so, but where another library is given their objects."""
    nodes: dict[Node, Node] = {}

    def part(value: Any) -> Any:
        if is_node(value):
            return nodes[value]
        if is_closure(value):
            return Closure(nameless(value.graph, is_made), tuple(map(part, value.captured)), value.signature)
        if isinstance(value, Tree):
            return Tree(_structure(value.treedef, is_made), tuple(map(part, value.leaves)), value.given)
        if is_made(type(value)):
            return tuple(map(part, REGISTRY.flatten_one_level(value)[0]))
        return map_parts(value, part)

    for node in graph.nodes:
        fits = part if _is_blind(node) else lambda value: map_nodes(value, nodes.__getitem__)
        nodes[node] = dataclasses.replace(
            node, args=fits(node.args), kwargs=fits(dict(node.kwargs)), aval=_aval(fits(node.aval)))
    return Graph(tuple(nodes.values()), graph.consts, graph.name)


def _is_blind(node: Node) -> bool:
    return not callable(node.target) or str(module_of(node.target)).partition(".")[0] in BLIND


def _aval(value: Any) -> Any:
    """The abstract value of a result without what JAX makes to be called (what `vjp` gives), which knows the trees."""
    return None if is_function_like(value) else map_parts(value, _aval)


def _structure(treedef: Any, is_made: Callable[[type], bool]) -> Any:
    """A tree's structure with tuples for the objects of those classes."""
    below = [_structure(child, is_made) for child in treedef.children()]
    data = treedef.node_data()
    if data is None:
        return treedef
    gone = is_made(data[0]) or data[1] is not None and isinstance(data[1], type) and is_made(data[1])
    return type(treedef).from_node_data_and_children(
        REGISTRY, (tuple, None) if gone else data, below)
