"""Passes down long columns, a few rows at a time: the bits of one column at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.codegen.cpp import columns
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function
from tests.codegen.cpp_kit import compiled

FUNCTIONS = {
    "softmax": lambda x: jax.nn.softmax(x, 0), "normal": lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1),
    "sum": lambda x: (x * x).sum(0), "all": lambda x: (x.max(0), x.sum(0), (x * 2).min(0)),
    "places": lambda x: (jnp.argmax(x, 0), jnp.argmin(x + 1, 0)), "running": lambda x: lax.cumsum(x, 0) * 2,
    "backwards": lambda x: lax.cumsum(x, 0, reverse=True), "highest": lambda x: lax.cummax(x, 0) + x.max(0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(257, 70), (1000, 1024)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_of_one_column_at_a_time(name, dtype, shape, monkeypatch):
    fn = FUNCTIONS[name]
    x = jnp.asarray(np.random.default_rng(0).normal(size=shape) * 9).astype(dtype)
    texts, results = [], []
    for many in (columns.MANY, 10**9):
        monkeypatch.setattr(columns, "MANY", many)
        texts.append(unit_source(schedule(lower_function(fn, x)), True))
        results.append(jax.tree.leaves(compiled(fn, x, numerics="exact")(x)))  # else products join sums as they like
    assert ("kept[nth]" in texts[0]) == (name != "backwards") and "kept[nth]" not in texts[1]
    for chunked, plain, eager in zip(*results, jax.tree.leaves(fn(x)), strict=True):
        assert np.asarray(chunked).tobytes() == np.asarray(plain).tobytes()
        got, want = (np.asarray(a).astype(np.float64) for a in (chunked, eager))
        if dtype != "bfloat16" or name not in ("running", "backwards"):  # eager JAX rounds each of those sums
            np.testing.assert_allclose(got, want, rtol=1e-4 if dtype != "bfloat16" else 0.02, atol=1e-3)


def test_sizes_that_change_and_nans():
    x = np.random.default_rng(0).normal(size=(700, 100)).astype(np.float32)
    x[3, 5], x[600, 7], x[0, 8] = np.nan, np.inf, -np.inf
    (got,), want = compiled(FUNCTIONS["softmax"], x)(x), FUNCTIONS["softmax"](jnp.asarray(x))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


def mixture(weights, bias, x, y):
    """Density of a mixture of Gaussians: the parts of its gradient's folds are rows that may be none."""
    logit, mean, log_scale = jnp.split(x @ weights + bias, 3, -1)
    log_density = jax.nn.log_softmax(logit) - 0.5 * ((y - mean) / jnp.exp(log_scale)) ** 2 - log_scale
    return -jax.nn.logsumexp(log_density, -1).mean()


def gradients(weights, x, y, k):
    return jax.grad(mixture, (0, 1))(weights, jnp.zeros(3 * k), x, y)


def test_columns_of_no_rows_have_their_first_values():
    found, expected = dynacomp.jit(gradients, options={"recall": False}), jax.jit(gradients, static_argnums=3)
    for k, n in ((1, 3), (2, 4), (2, 3), (3, 70)):
        key = jax.random.key(n)
        args = jax.random.normal(key, (1, 3 * k)), jax.random.normal(key, (n, 1)), jnp.ones((n, 1)), k
        for got, want in zip(found(*args), expected(*args)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_rows_gathered_by_computed_places_between_passes():
    """The name of a local variable hid the function that reads a lane: the compiler refused, and XLA ran the region."""
    def program(a, b):
        places = (jnp.arange(b.shape[0]) * 7) % max(b.shape[0], 1)
        return a[:, None, 0] * b[places][None, :, 1]

    dynacomp.reset()
    run = dynacomp.jit(program, dynamic=True)
    for n in (40, 17, 33, 100, 300):
        a, b = jnp.arange(2.0 * n).reshape(n, 2), jnp.arange(2.0 * n + 6).reshape(n + 3, 2)
        np.testing.assert_array_equal(run(a, b), program(a, b))
    assert dynacomp.stats()["regions"] == {"cpp": 1}
