"""JAX's loops and branches as Ops of ours: which parameters each body takes, and batches of loops as one loop."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun

from dynacomp.lowering.primitives.control_rules import CONTROLS
from tests.lowering.closed import same_as_eager

X = np.linspace(1, 5, 6, dtype=np.float32)


def control(name, function, *args):
    eqn = next(e for e in jax.make_jaxpr(function)(*args).jaxpr.eqns if e.primitive.name == name)
    return CONTROLS[name](eqn), eqn


def test_a_scan_says_what_it_holds_and_which_way_it_goes():
    run = lambda a, b, xs: lax.scan(lambda c, x: (c * a + x, c - b), xs[0], xs, reverse=True)
    made, eqn = control("scan", run, X[0], X[1], X)
    assert made.op == "scan"
    assert made.params == {"length": 6, "reverse": True, "consts": 2, "carries": 1}
    assert made.bodies["body"].used == tuple(range(len(eqn.invars)))


def test_both_bodies_of_a_while_take_the_constants_of_both():
    def run(limit, step, x):
        return lax.while_loop(lambda s: s.sum() < limit, lambda s: s * step, x)

    made, eqn = control("while", run, X[0], X[1], X)
    condition, body = made.bodies["condition"], made.bodies["body"]
    assert made.params == {"consts": 2}
    assert condition.parameters == body.parameters == tuple(v.aval for v in eqn.invars)
    assert condition.used == (0, 2) and body.used == (1, 2), "each its own constant, and what is carried"


def test_a_batch_of_loops_runs_while_one_does_and_changes_only_those():
    halve = jax.vmap(lambda limit, x: lax.while_loop(lambda s: s > limit, lambda s: s / 2, x))
    made, eqn = control("while", halve, X, X * 9)
    condition, body = (jaxpr_as_fun(made.bodies[k].closed) for k in ("condition", "body"))
    limits, state = X, jnp.where(X > 3, X * 9, 0)
    assert condition(limits, state)[0].shape == () and bool(condition(limits, state)[0])
    assert not condition(limits, jnp.zeros_like(X))[0]
    np.testing.assert_array_equal(body(limits, state)[0], jnp.where(state > limits, state / 2, state))
    same_as_eager(halve, X, X * 9)


def test_branches_keep_their_order_and_operands():
    made, eqn = control("cond", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(1), X)
    names = [b.closed.jaxpr.eqns[0].primitive.name for b in made.bodies["branches"]]
    assert names == ["sin", "cos", "tan"] and made.params == {}
    assert {b.used for b in made.bodies["branches"]} == {(0,)}
