"""Sums, scans, norms, softmax, products and their gradients against float64: no more than twice eager JAX's error.

The error of a result is the root of the mean square, over several draws, in units of the last place of the largest
element; half a unit is rounding, and no error.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp

PLANE, LINE, BOX = (256, 300), (16384,), (8, 50, 60)
OPTIONS = {"fast": {}, "exact": {"numerics": "exact"}}
DRAWS = {"normal": lambda r, shape: r.randn(*shape), "uniform": lambda r, shape: r.rand(*shape)}
ROUNDING = 0.5


def centred(x):
    return x - x.mean(-1, keepdims=True)


def layer_norm(x):
    return centred(x) / jnp.sqrt((centred(x) ** 2).mean(-1, keepdims=True) + 1e-5)


def recurrence(x):
    return lax.scan(lambda c, t: (c * jnp.tanh(t) + t,) * 2, jnp.zeros((), x.dtype), x[:1000])[1]


def pooled(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 5, 5), (1, 2, 2), "SAME")


def by_channels(x):
    """A filter of 49 numbers for each channel, channels first."""
    images, filters = x.reshape(2, 30, 20, 20), x.reshape(-1)[:49 * 30].reshape(30, 1, 7, 7)
    return lax.conv_general_dilated(images, filters, (1, 1), "SAME", feature_group_count=30)


TABLE = {
    "sum": (jnp.sum, PLANE), "sum of a line": (jnp.sum, LINE), "sum down": (lambda x: x.sum(0), PLANE),
    "sum along": (lambda x: x.sum(1), PLANE), "sum of the middle": (lambda x: x.sum(1), BOX),
    "mean down": (lambda x: x.mean(0), PLANE), "var": (jnp.var, PLANE), "var down": (lambda x: x.var(0), PLANE),
    "std along": (lambda x: x.std(1), PLANE), "var of a box": (lambda x: x.var((0, 1)), BOX),
    "nansum": (jnp.nansum, PLANE), "average": (lambda x: jnp.average(x, weights=abs(x) + 1, axis=0), PLANE),
    "cumsum": (jnp.cumsum, LINE), "cumsum down": (lambda x: x.cumsum(0), PLANE),
    "cumsum along": (lambda x: x.cumsum(1), PLANE), "cumsum back": (lambda x: lax.cumsum(x, reverse=True), LINE),
    "norm": (jnp.linalg.norm, LINE), "norm down": (lambda x: jnp.linalg.norm(x, axis=0), PLANE),
    "largest column": (lambda x: jnp.linalg.norm(x, 1), PLANE),
    "softmax down": (lambda x: jax.nn.softmax(x, 0), PLANE), "softmax along": (lambda x: jax.nn.softmax(x, 1), PLANE),
    "log_softmax": (jax.nn.log_softmax, PLANE), "logsumexp down": (lambda x: jax.nn.logsumexp(x, 0), PLANE),
    "standardize down": (lambda x: jax.nn.standardize(x, 0), PLANE), "layer_norm": (layer_norm, PLANE),
    "product": (lambda x: x @ x.T, PLANE), "product down": (lambda x: x.T @ x, PLANE),
    "matrix times vector": (lambda x: x @ x[0], PLANE), "vector times matrix": (lambda x: x[:, 0] @ x, PLANE),
    "dot": (lambda x: x @ x, LINE), "batches of products": (lambda x: x @ jnp.swapaxes(x, 1, 2), BOX),
    "einsum": (lambda x: jnp.einsum("aij,bij->ab", x, x), BOX), "pooled": (pooled, BOX),
    "recurrence": (recurrence, LINE), "cov": (jnp.cov, (40, 300)),
    "convolve": (lambda x: jnp.convolve(x[:2000], x[2000:2200]), LINE), "by channels": (by_channels, BOX),
    "correlate": (lambda x: jnp.correlate(x[:2000], x[2000:3000], mode="same"), LINE),
    "segments": (lambda x: jax.ops.segment_sum(x, jnp.arange(x.size) % 7, 7), LINE),
}
DIFFERENTIATED = ("var down", "std along", "cumsum", "cumsum down", "softmax down", "softmax along", "log_softmax",
                  "logsumexp down", "standardize down", "layer_norm", "product", "pooled", "recurrence", "norm down",
                  "convolve", "by channels")
QUICK = ("sum", "sum down", "cumsum", "cumsum down", "softmax down", "dot", "convolve", "product down")


def gradient(fn):
    def total(x):
        y = fn(x)
        return (y * jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape)).sum()
    return jax.grad(total)


def errors(fn, shape, draw, options, seeds):
    """Those of the compiled function, and of eager JAX."""
    compiled, found = dynacomp.jit(fn, options=options), []
    for seed in range(seeds):
        x = draw(np.random.RandomState(seed), shape).astype(np.float32)
        with jax.enable_x64(True):
            want = np.asarray(fn(jnp.asarray(x, jnp.float64)))
        place = np.abs(want).max() * 2.0 ** -23
        found.append([np.mean(((np.asarray(f(jnp.asarray(x)), np.float64) - want) / place) ** 2)
                      for f in (compiled, fn)])
    return np.sqrt(np.mean(found, 0))


def check(fn, shape, draw, mode, seeds=6):
    dynacomp.reset()
    ours, theirs = errors(fn, shape, DRAWS[draw], OPTIONS[mode], seeds)
    assert ours <= max(2 * theirs, ROUNDING)
    stats = dynacomp.stats()
    assert set(stats["regions"]) == {"cpp"} and not stats["externs"] and not stats["breaks"]


@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("name", QUICK)
def test_a_sample(name, mode):
    check(*TABLE[name], "uniform", mode, seeds=3)


@pytest.mark.parametrize("mode", OPTIONS)
def test_a_whole_sum_rounds_once(mode):
    """Lanes, registers and threads meet in doubles: little more than the 0.29 of a single rounding."""
    ours, _ = errors(*TABLE["sum of a line"], DRAWS["uniform"], OPTIONS[mode], 40)
    assert ours < 0.32


@pytest.mark.slow
@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name", TABLE)
def test_no_error_over_twice_eagers(name, draw, mode):
    check(*TABLE[name], draw, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients(name, draw, mode):
    fn, shape = TABLE[name]
    check(gradient(fn), shape, draw, mode)


@pytest.mark.parametrize("mode", OPTIONS)
def test_sums_of_every_length(mode):
    """Of no number, of fewer than a block, around blocks and blocks of blocks; down columns, and whole."""
    down, whole = (dynacomp.jit(f, options=OPTIONS[mode]) for f in (lambda x: x.sum(0), lambda x: x.sum()))
    for n in (0, 1, 2, 31, 32, 33, 64, 65, 1023, 1024, 1025, 2500, 8192, 8193, 20000):
        x = np.random.RandomState(n).rand(n, 3).astype(np.float32)
        np.testing.assert_allclose(down(jnp.asarray(x)), x.sum(0, np.float64), rtol=1e-6)
        np.testing.assert_allclose(whole(jnp.asarray(x)), x.sum(None, np.float64), rtol=1e-6)
    assert dynacomp.stats()["regions"].keys() == {"cpp"}
