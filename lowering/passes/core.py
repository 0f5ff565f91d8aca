"""What every Graph pass is made of, and the two simplest passes: dead code and common subexpressions.

A pass is `Graph -> Graph`. `rebuild` walks a Graph once, in order, gives each call (its arguments
already rewritten) to a rule, and keeps what the rule answers: a Node or typed NumPy scalar to use
instead, or None to keep the call as it is. Primitives with effects are never offered.

    >>> import numpy as np
    >>> from dynacomp.capture.graph.avals import Aval
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> g = lower_function(lambda x: (x * x, x * x)[0], Aval((2,), np.dtype("float32")))
    >>> print(dead_code(g))
    def graph(x0: f32[2]):
        mul = mul(x0, x0)  # f32[2]
        return (mul,)  # (f32[2],)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import (
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Builder,
    Graph,
    Node,
    is_node,
    map_nodes,
    nodes_in,
)
from dynacomp.lowering.primitives.ops import has_effects, op_kind

Rule = Callable[[Node, Builder], Any]


def rebuild(graph: Graph, rule: Rule) -> Graph:
    """`graph` with `rule(node, builder)` asked about every call without effects; see the module.

    A rule may append nodes to the builder. Outputs stay Nodes: scalars among them become constants.
    """
    builder = Builder(graph.name)
    new: dict[Node, Any] = {}
    for node in graph.nodes[:-1]:
        new[node] = _carry(graph, node, new, rule, builder)
    made = builder.finish(map_nodes(graph.output, lambda node: as_node(builder, new[node])))
    return replace(made, nodes=(*made.nodes[:-1], replace(made.nodes[-1], aval=graph.nodes[-1].aval)))


def _carry(graph: Graph, node: Node, new: Mapping[Node, Any], rule: Rule, builder: Builder) -> Any:
    if node.op == PLACEHOLDER:
        return builder.append(replace(node, name=builder.fresh(node.name)))
    if node.op == GET_ATTR:
        return builder.const(graph.consts[node.target], node.aval, node.name)
    moved = replace(node, args=map_nodes(node.args, new.__getitem__))
    if not op_kind(node):  # a function that the program called: its keywords may be computed, too
        moved = replace(moved, kwargs=map_nodes(dict(node.kwargs), new.__getitem__))
    found = None if has_effects(node) else rule(moved, builder)
    return append(builder, moved) if found is None else found


def substituted(graph: Graph, makers: Mapping[Node, Callable[[Builder, Mapping[Node, Any]], Any]]) -> Graph:
    """`graph` with the values that `makers[node](builder, new)` appends in place of its nodes; `new` has those of the
    nodes before. What is read no more goes."""
    builder, new = Builder(graph.name), dict[Node, Any]()
    for node in graph.nodes[:-1]:
        make = makers.get(node)
        new[node] = copied(builder, graph, node, new) if make is None else make(builder, new)
    made = finish(builder, tuple(map(new.__getitem__, graph.output)), graph.nodes[-1].aval)
    return dead_code(made)


def copied(builder: Builder, graph: Graph, node: Node, new: Mapping[Node, Any]) -> Node:
    """A node of `graph` over other operands."""
    if node.op == GET_ATTR:
        return builder.const(graph.consts[node.target], node.aval, node.name)
    if node.op == PLACEHOLDER:
        return builder.append(replace(node, name=builder.fresh(node.name)))
    return append(builder, replace(node, args=map_nodes(node.args, new.__getitem__)))


def users_of(graph: Graph) -> dict[Node, list[Node]]:
    """Who reads each node."""
    users: dict[Node, list[Node]] = {n: [] for n in graph.nodes}
    for node in graph.nodes:
        for operand in nodes_in((node.args, dict(node.kwargs))):
            users[operand].append(node)
    return users


def finish(builder: Builder, outputs: tuple[Any, ...], avals: Any) -> Graph:
    graph = builder.finish(tuple(as_node(builder, o) for o in outputs))
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], aval=avals)))


def append(builder: Builder, node: Node) -> Node:
    """Append a call that was made for another Graph, numbered anew."""
    return builder.append(replace(node, name=builder.fresh(re.sub(r"(_\d+)+$", "", node.name))))


def constant(builder: Builder, value: Any) -> Node:
    """A NumPy value as a `get_attr` node."""
    array = np.asarray(value)
    return builder.const(array, Aval(array.shape, array.dtype))


def as_node(builder: Builder, value: Any) -> Node:
    """What a pass has found for a node, a Node or a constant, as a Node."""
    return value if is_node(value) else constant(builder, value)


def emit(builder: Builder, like: Node, target: Any, args: tuple, kwargs: dict[str, Any], aval: Any) -> Node:
    """A new call at the place of `like` (its user's line is kept)."""
    return builder.call(target, args, kwargs, aval, like.where)


def dead_code(graph: Graph) -> Graph:
    """Drop calls and constants that no output and no effect needs; placeholders stay."""
    live: set[Node] = set(nodes_in(graph.nodes[-1].args))
    for node in reversed(graph.nodes):
        if node in live or has_effects(node):
            live.add(node)
            live.update(nodes_in((node.args, dict(node.kwargs))))
    nodes = tuple(n for n in graph.nodes if n in live or n.op in (PLACEHOLDER, OUTPUT))
    consts = {n.target: graph.consts[n.target] for n in nodes if n.op == GET_ATTR}
    return replace(graph, nodes=nodes, consts=consts)


def merge_common(graph: Graph) -> Graph:
    """Compute each expression once. Two calls are one when target, arguments, parameters, shape and
    dtype are equal (weak types do not count; the output node keeps those)."""
    seen: dict[Hashable, Any] = {}

    def rule(node: Node, builder: Builder) -> Any:
        key = (id(node.target), value_key(node.args), value_key(dict(node.kwargs)), _aval_key(node.aval))
        if key in seen:
            return seen[key]
        seen[key] = append(builder, node)
        return seen[key]

    return rebuild(_share_consts(graph), rule)


def _share_consts(graph: Graph) -> Graph:
    """One `get_attr` for each array object."""
    first: dict[int, Node] = {}
    alias = {n: first.setdefault(id(graph.consts[n.target]), n) for n in graph.nodes if n.op == GET_ATTR}
    if all(k is v for k, v in alias.items()):
        return graph
    moved: dict[Node, Node] = {}
    for n in graph.nodes:
        args = map_nodes(n.args, lambda m: moved[alias.get(m, m)])
        moved[n] = replace(n, args=args) if n.args else n
    return replace(graph, nodes=tuple(m for n, m in moved.items() if alias.get(n, n) is n))


def _aval_key(aval: Any) -> Hashable:
    if isinstance(aval, tuple):
        return tuple(map(_aval_key, aval))
    return (aval.shape, str(aval.dtype))


def value_key(value: Any) -> Hashable:
    """A key equal for equal arguments: Nodes by identity, scalars by dtype and bits (so that NaN
    equals NaN and -0.0 is not 0.0), unhashable objects by identity."""
    if is_node(value):
        return ("node", id(value))
    if isinstance(value, (np.generic, np.ndarray)):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, (tuple, list)):
        return (type(value), *map(value_key, value))
    if isinstance(value, Mapping):
        return tuple((k, value_key(value[k])) for k in sorted(value))
    try:
        hash(value)
    except TypeError:
        return ("id", id(value))
    return (type(value), value)


def is_getitem(node: Node) -> bool:
    """True for a node that picks one result of an Op that has several."""
    return node.target is operator.getitem
