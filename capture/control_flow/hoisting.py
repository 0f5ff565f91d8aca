"""What a gradient's function computes of values that eager JAX can look at, computed once more outside of it: before
the call, of what the call is given. A check at the end of the Graph asks for it (see `raising`).

    def loss(p):
        if not bool(jnp.all(p > 0)):        # in the Graph: all(greater(p, 0)), beside grad(loss)(p)
            raise ValueError("a rate below 0")
        return jnp.log(p).sum()

    jax.grad(loss)(p)
"""

from __future__ import annotations

from dynacomp.capture.bodies.placement import given_outside, has_value, home_of
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Node, closures_in, map_nodes
from dynacomp.capture.symbolic.machine import Capture


def may_hoist(cap: Capture, node: Node, from_sides: bool = False) -> bool:
    """Whether `node`, of the body at hand, can be computed outside of all bodies. from_sides: even if a side of an `if`
    that may not be taken has it."""
    return bool(cap.bodies) and (from_sides or not any(b.is_side for b in cap.bodies)) and has_value(cap, node)


def hoisted(cap: Capture, node: Node) -> Node:
    """That Node; Differs where it needs what only a body has."""
    found = _outside(cap, node, {})
    for body in cap.bodies:
        body.assumes = True
    return found


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
    inside = (n for closure in closures_in((node.args, dict(node.kwargs))) for n in closure.graph.nodes)
    return node in cap.graph.heard or any(_is_heard(cap, n) for n in inside)
