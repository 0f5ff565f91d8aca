"""What a gradient's function computes of values that eager JAX can look at, computed once more outside of it: before
the call, of what the call is given. A check at the end of the Graph asks for it (see `raising`).

    def loss(p):
        if not bool(jnp.all(p > 0)):        # in the Graph: all(greater(p, 0)), beside grad(loss)(p)
            raise ValueError("a rate below 0")
        return jnp.log(p).sum()

    jax.grad(loss)(p)
"""

from __future__ import annotations

from typing import Any

import jax

from dynacomp.capture.bodies.placement import given_outside, has_value, home_of
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Node, closures_in, map_nodes, nodes_in
from dynacomp.capture.symbolic.machine import Capture


def may_hoist(cap: Capture, node: Node, from_sides: bool = False) -> bool:
    """Whether `node`, of the body at hand, can be computed outside of all bodies. from_sides: even if a side of an `if`
    that may not be taken has it."""
    inside = bool(cap.bodies) or cap.root.traced
    return inside and (from_sides or not any(b.is_side for b in cap.bodies)) and has_value(cap, node)


def hoisted(cap: Capture, node: Node) -> Node:
    """That Node; Differs where it needs what only a body has."""
    found = _outside(cap, node, {})
    for body in cap.bodies:
        body.assumes = True
    return found


def call_outside(cap: Capture, fn: Any, args: tuple[Any, ...], aval: Any, name: str) -> Node:
    """A call of `fn`, with Nodes and Closures of the body at hand among its arguments, made outside of all bodies;
    Differs where eager JAX could not look at what it gives."""
    if not all(may_hoist(cap, node) for node in nodes_in(args)) or _hears(cap, args):
        raise Differs("a call of what only a body has")
    made: dict[Node, Node] = {}
    args = map_nodes(args, lambda node: _still(cap, _outside(cap, node, made)))
    for body in cap.bodies:
        body.assumes = True
    return cap.graph.builder.call(fn, args, {}, aval, cap.where(), name)


def _still(cap: Capture, node: Node) -> Node:
    """The same, of which there is no derivative: a caller may be differentiated."""
    return cap.graph.builder.call(jax.lax.stop_gradient, (node,), {}, node.aval) if cap.root.traced else node


def _outside(cap: Capture, node: Node, made: dict[Node, Node]) -> Node:
    if node in made:
        return made[node]
    body, outer = home_of(cap, node), cap.graph.builder
    if cap.graph.homes.get(node) is None:
        found = node
    elif body is None:
        raise Differs("a condition on what another body has computed")
    elif _is_heard(cap, node):
        raise Differs("a condition on what is seen to be computed")
    elif node.op == PLACEHOLDER:
        given = given_outside(body, node)
        if given is None:
            raise Differs("a condition on what a transformation makes")
        found = _outside(cap, given, made)
    elif node.op == GET_ATTR:
        found = outer.const(body.builder.consts[node.target], node.aval)
    else:
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), lambda n: _outside(cap, n, made))
        found = outer.call(node.target, args, kwargs, node.aval, node.where, node.name)
    made[node] = found
    return found


def _is_heard(cap: Capture, node: Node) -> bool:
    """Whether somebody would notice that it is computed twice."""
    return node in cap.graph.heard or _hears(cap, (node.args, dict(node.kwargs)))


def _hears(cap: Capture, args: Any) -> bool:
    """Whether that is so of something in the functions among these arguments."""
    return any(_is_heard(cap, node) for closure in closures_in(args) for node in closure.graph.nodes)
