"""What nobody uses is not lowered: tangents without values least of all."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dynacomp
from dynacomp.lowering.primitives.liveness import needed


def names(equations):
    return [str(e.primitive) for e in equations]


def test_what_follows_from_what_is_known_is_not_needed():
    closed = jax.make_jaxpr(lambda x: (jnp.sin(x) * 2 + 1, jnp.cos(x)))(1.0)
    sine = closed.jaxpr.eqns[0].outvars[0]
    assert names(needed(closed.jaxpr, closed.jaxpr.outvars[:1])) == ["sin", "mul", "add"]
    assert names(needed(closed.jaxpr, closed.jaxpr.outvars[:1], {id(sine)})) == ["mul", "add"]


def test_effects_are_always_needed():
    closed = jax.make_jaxpr(lambda x: (jax.debug.print("{}", x * 2), x + 1)[1])(1.0)
    assert "debug_print" in names(needed(closed.jaxpr, closed.jaxpr.outvars)) or "debug_callback" in names(
        needed(closed.jaxpr, closed.jaxpr.outvars))


def test_tangents_without_values():
    """A loop that counts, beside what is differentiated, batched: JAX spreads the count's float0."""

    def fn(x):
        total, count = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + jnp.abs(x[0]) + 1, c[1] + 1), (x.sum(), 0))
        return x[:2] * total, count

    xs = jnp.linspace(-1, 1, 12).reshape(4, 3)
    dynacomp.reset()
    compiled = dynacomp.jit(fn, options={"verify": False})
    transforms = (lambda f: jax.vmap(jax.jacfwd(lambda x: f(x)[0])),
                  lambda f: jax.jacfwd(jax.vmap(lambda x: f(x)[0])))
    for transform in transforms:
        for scale in (1, 2, 3):
            expected = transform(fn)(scale * xs)
            np.testing.assert_allclose(transform(compiled)(scale * xs), expected, rtol=1e-5, atol=1e-6)
    assert set(dynacomp.stats()["regions"]) == {"cpp"}
