"""What a gradient's function computes of values that eager JAX can look at, computed once more outside of it: before
the call, of what the call is given. A check at the end of the Graph asks for it (see `raising`).

    def loss(p):
        if not bool(jnp.all(p > 0)):        # in the Graph: all(greater(p, 0)), beside grad(loss)(p)
            raise ValueError("a rate below 0")
        return jnp.log(p).sum()

    jax.grad(loss)(p)
"""

from __future__ import annotations

from dynacomp.capture.bodies.placement import given_outside, has_value
from dynacomp.capture.bodies.subgraphs import Body
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Node, map_nodes
from dynacomp.capture.symbolic.machine import Capture


def may_hoist(cap: Capture, node: Node) -> bool:
    """Whether `node`, of the body at hand, can be computed outside of all bodies."""
    return len(cap.bodies) == 1 and not cap.bodies[0].is_side and has_value(cap, node)


def hoisted(cap: Capture, node: Node) -> Node:
    """That Node; Differs where it needs what only the body has."""
    if not cap.bodies:
        return node
    return _outside(cap, cap.bodies[0], node, {})


def _outside(cap: Capture, body: Body, node: Node, made: dict[Node, Node]) -> Node:
    if node in made:
        return made[node]
    outer = cap.graph.builder
    if cap.graph.homes.get(node) is None:
        found = node
    elif node.op == PLACEHOLDER:
        given = given_outside(cap, body, node)
        if given is None:
            raise Differs("a condition on what a transformation makes")
        found = given
    elif node.op == GET_ATTR:
        found = outer.const(body.builder.consts[node.target], node.aval)
    else:
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), lambda n: _outside(cap, body, n, made))
        found = outer.call(node.target, args, kwargs, node.aval, node.where, node.name)
    made[node] = found
    return found
