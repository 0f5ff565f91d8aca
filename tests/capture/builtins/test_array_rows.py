"""Functions of JAX where sizes are symbolic: one entry for all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def squeezed(x):
    return jnp.squeeze(x[:, None] * 2), jnp.squeeze(x[None], axis=0).shape


def scanned(x):
    return jax.lax.scan(lambda c, _: (c * 1.5, c), 1.0, length=x.shape[0])


def counted(x):
    return jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, 0.0)


def convolved(x):
    return jnp.convolve(x, jnp.asarray([1.0, 2.0])), jnp.correlate(x, x[:2], mode="same")


@pytest.mark.parametrize("program", [squeezed, scanned, counted, convolved])
def test_one_entry_for_each_length(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (5, 7, 3, 8, 6, 5):
        x = jnp.linspace(-1.0, 1.0, n)
        for got, want in zip(jax.tree.leaves(compiled(x)), jax.tree.leaves(program(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert getattr(got, "dtype", None) == getattr(want, "dtype", None)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda x: jnp.squeeze(x, 0), lambda x: jax.lax.fori_loop(3, 1, lambda i, c: c + 1, x),
    lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x)])
def test_known_sizes_are_as_jax_has_them(program):
    for x in (jnp.ones((1,)), jnp.ones((1, 2))[:, 0]):
        assert repr(dynacomp.jit(program, backend="eager")(x)) == repr(program(x))
