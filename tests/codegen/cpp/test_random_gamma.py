"""Gamma variates, and what is made of them, in one native call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def variates(key, a):
    return jax.random.gamma(key, a) * 2


@pytest.mark.medium
@pytest.mark.parametrize("fn", [
    pytest.param(variates, id="gamma"),
    pytest.param(lambda k, a: jax.random.poisson(k, a * 3), id="poisson", marks=pytest.mark.slow),
    pytest.param(lambda k, a: jax.grad(lambda a: variates(k, a).sum())(a), id="gradient", marks=pytest.mark.slow)])
def test_one_native_call(fn):
    compiled = dynacomp.jit(fn)
    for i, n in enumerate((5, 5, 8)):
        key, a = jax.random.key(i), jnp.linspace(0.2, 4, n) + i
        np.testing.assert_allclose(compiled(key, a), fn(key, a), rtol=2e-4, atol=1e-5)
    stats = dynacomp.stats()
    assert not stats["externs"] and set(stats["regions"]) == {"cpp"} and not stats["breaks"]
    assert stats["frames_captured"] <= 2
