"""Python numbers behind a loop that is one node: what the last round leaves, and what each hands on."""

import jax.numpy as jnp

import dynacomp


def test_floats_are_pythons_own():
    """t is exact to the last bit; JAX's floats would have lost it. k is bound anew in each round."""
    def clocked(x, n):
        t = 0.0
        for i in range(n):
            t += 0.1
            k = 2 * i + 1
            x = jnp.sin(x + t * k)
        return x, t, k, i

    dynacomp.reset()
    compiled = dynacomp.jit(clocked, backend="eager")
    for n in (5, 7, 9, 300, 301, 11):
        assert compiled(jnp.ones(2), n)[1:] == clocked(jnp.ones(2), n)[1:]
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]
