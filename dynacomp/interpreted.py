"""A captured Graph run node by node by JAX: the oracle of capture, backend "eager", and what XLA
compiles where our own lowering cannot.

    program = interpreted(graph)
    outputs = program(*arrays)      # a tuple; symbolic sizes are read off the arrays
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynacomp.capture.graph import Closure, Graph, Node, Tree, map_nodes
from dynacomp.capture.graph_interp import run
from dynacomp.lowering.dims import is_symbolic, map_aval, read_sizes, substitute, to_sympy


def interpreted(graph: Graph) -> Callable[..., tuple[Any, ...]]:
    """The callable of a captured Graph; JAX can trace it."""
    avals = [map_aval(p.aval, to_sympy) for p in graph.placeholders]
    if not any(is_symbolic(d) for p in graph.placeholders for d in p.aval.shape):
        return lambda *arrays: tuple(run(graph, *arrays))
    return lambda *arrays: tuple(run(at_sizes(graph, read_sizes(avals, list(map(np.shape, arrays)))), *arrays))


def at_sizes(graph: Graph, sizes: Mapping[str, Any]) -> Graph:
    """`graph`, and the bodies in it, with its symbolic sizes replaced by numbers."""
    made: dict[Node, Node] = {}
    for node in graph.nodes:
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), made.__getitem__)
        made[node] = replace(node, args=put(args, sizes), kwargs=put(kwargs, sizes))
    return replace(graph, nodes=tuple(made.values()))


def put(value: Any, sizes: Mapping[str, Any]) -> Any:
    """An argument with `sizes` put in wherever a symbolic size stands."""
    again = lambda v: put(v, sizes)
    if is_symbolic(value):
        return substitute(value, sizes)
    if isinstance(value, Closure):
        return replace(value, graph=at_sizes(value.graph, sizes))
    if isinstance(value, Tree):
        return Tree(value.treedef, tuple(map(again, value.leaves)))
    if isinstance(value, slice):
        return slice(again(value.start), again(value.stop), again(value.step))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if type(value) in (tuple, list):
        return type(value)(map(again, value))
    return {k: again(v) for k, v in value.items()} if type(value) is dict else value
