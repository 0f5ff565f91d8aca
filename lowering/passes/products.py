"""A product that is only read transposed is computed transposed: `(a @ b).T` is `b.T @ a.T`, whose
operands are read through their strides, so that no copy is left.

JAX's rule for the gradient of a product leaves such a transpose on the weights' gradient. Each sum has
the same terms in the same order.

    >>> import jax, numpy as np
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    >>> print(turn_products(lower_function(lambda a, b: (a @ b).T, a, b)).calls[0].aval.shape)
    (4, 2)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from dynacomp.capture.graph.graph import Graph, Node, map_nodes, node_at, nodes_in
from dynacomp.lowering.primitives.ops import OPS


def turn_products(graph: Graph) -> Graph:
    """`graph` with every product that one transpose alone reads, and swaps the sides of, swapped itself."""
    uses = Counter(x for n in graph.nodes for x in nodes_in((n.args, dict(n.kwargs))))
    turned = {n.args[0]: n for n in graph.calls if _swaps_sides(n) and uses[n.args[0]] == 1}
    if not turned:
        return graph
    moved: dict[Node, Node] = {}
    for node in graph.nodes:
        args = map_nodes(node.args, moved.__getitem__)
        product = node_at(node)
        if product is not None and turned.get(product) is node:
            moved[node] = moved[product]
        elif node in turned:
            moved[node] = _swapped(node, args, turned[node].aval)
        else:
            moved[node] = replace(node, args=args) if node.args else node
    return replace(graph, nodes=tuple(dict.fromkeys(moved.values())))


def _swaps_sides(node: Node) -> bool:
    """Does this transpose put the right side's dimensions of a product before the left's?"""
    product = node_at(node) if node.target is OPS["transpose"] else None
    if product is None or product.target is not OPS["dot_general"]:
        return False
    (contracted, _), (batch, _) = product.kwargs["dimension_numbers"]
    first = len(batch)
    second = len(product.args[0].aval.shape) - len(contracted)
    end = len(product.aval.shape)
    swapped = (*range(first), *range(second, end), *range(first, second))
    return first < second < end and tuple(node.kwargs["permutation"]) == swapped


def _swapped(product: Node, args: Any, aval: Any) -> Node:
    """The product of the same operands the other way round."""
    (left_in, right_in), (left_batch, right_batch) = product.kwargs["dimension_numbers"]
    kwargs = {**product.kwargs, "dimension_numbers": ((right_in, left_in), (right_batch, left_batch))}
    if isinstance(kwargs.get("precision"), tuple):
        kwargs["precision"] = kwargs["precision"][::-1]
    return replace(product, args=tuple(reversed(args)), kwargs=kwargs, aval=aval)
