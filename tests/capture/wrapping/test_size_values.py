"""`wrapping.size_values`: sizes are numbers like any other, also where JAX hands them to functions it transforms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tests.capture.wrapping.test_host_functions import compiled_like_plain

KS = (2, 3, 4, 6, 8, 12, 2)
INNER = {
    "shape": lambda x, k: x.reshape(4, k, 24 // k).sum(1).ravel() / (24 // k) ** 0.5,
    "slice": lambda x, k: x[:, :k].sum(0) / k,
    "arange": lambda x, k: x[:, :1] * jnp.arange(k) + (k - 3),
    "tuple": lambda x, k: x.reshape((4, *(k, 24 // k))).mean((0, 2)),
}
AROUND = {
    "grad": lambda f: jax.grad(lambda x, k: f(x, k).sum()),
    "vmap": lambda f: lambda x, k: jax.vmap(f, (0, None))(jnp.stack([x, 2 * x]), k),
    "jacfwd": lambda f: jax.jacfwd(lambda x, k: f(x, k).sum()),
    "jvp": lambda f: lambda x, k: jax.jvp(lambda y: f(y, k), (x,), (x,)),
    "checkpoint": lambda f: jax.grad(lambda x, k: jax.checkpoint(lambda y: f(y, k))(x).sum()),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inner", INNER)
def test_ints_that_are_sizes_below_a_transformation(inner, around):
    x = jnp.arange(96.0).reshape(4, 24)
    compiled_like_plain(AROUND[around](INNER[inner]), [(x, k) for k in KS], 3)
