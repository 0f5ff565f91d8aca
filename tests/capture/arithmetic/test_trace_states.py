"""Which trace an object is of that was made before: what is said is what plain Python hears, without a call traced."""

import jax
import jax.numpy as jnp
from jax._src import core

import dynacomp

X = jnp.linspace(0.5, 1, 3)


class Variable:
    """As NNX's are: of the trace that has made it."""

    def __init__(self, value):
        self.state, self.value = core.get_opaque_trace_state(convention="nnx"), value


def test_what_was_made_before_is_of_the_frames_own_trace_or_of_another():
    def program(variables, x):
        here = [v.state == core.get_opaque_trace_state() for v in variables]
        inside = []

        def loss(x):
            inside.extend(v.state != core.get_opaque_trace_state() for v in variables)
            return (x * sum(here)).sum()

        return jax.grad(loss)(x), here, inside

    kept = []
    jax.vmap(lambda x: kept.append(Variable(x)) or x)(X)
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for variables in ([Variable(X)] * 2, [Variable(X), Variable(X)], [Variable(2 * X), *kept], [Variable(X), *kept]):
        expected, got = program(variables, X), compiled(variables, X)
        assert jnp.array_equal(got[0], expected[0]) and got[1:] == expected[1:]
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]
