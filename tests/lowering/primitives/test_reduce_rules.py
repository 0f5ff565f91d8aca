"""Reductions by functions of the program's, windows and running ones, as eager JAX computes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import same_as_eager

X = np.random.RandomState(0).randn(6, 21).astype(np.float32)
NAN = X.copy()
NAN[2, 3:9] = np.nan


@pytest.mark.parametrize("function", [lax.add, lax.max, lax.mul, lax.min])
@pytest.mark.parametrize("start", [0.0, 3.0])
def test_reduce_by_a_known_function(function, start):
    same_as_eager(lambda x: lax.reduce(x, np.float32(start), function, (1,)), X)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_reduce_pairs(axes):
    """The largest and where it is: two arrays through one function."""

    def best(a, b):
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def run(x):
        where = lax.broadcasted_iota(np.int32, x.shape, axes[-1])
        return lax.reduce((x, where), (np.float32(-np.inf), np.int32(0)), best, axes)

    same_as_eager(run, X)


@pytest.mark.parametrize("function", [lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_bitwise_reductions_of_integers(function, dtype):
    x = np.random.RandomState(1).randint(0, 255, (5, 40)).astype(dtype)
    start = np.array(-1, np.int32).astype(dtype) if function is lax.bitwise_and else dtype(0)
    for axes in ((0,), (1,), (0, 1)):
        same_as_eager(lambda x, axes=axes: lax.reduce(x, start, function, axes), x)


@pytest.mark.parametrize("window", [(2, 3), (5, 7), (1, 20)])
def test_windows_by_a_function(window):
    run = lambda x: lax.reduce_window(x, np.float32(0.5), lambda a, b: jnp.logaddexp(a, b), window, (2, 1), "SAME")
    same_as_eager(run, X)


def test_windows_with_dilations_and_cut_edges():
    run = lambda x: lax.reduce_window(
        x, np.float32(2), lax.mul, (3, 2), (1, 2), ((1, -1), (0, 2)), base_dilation=(2, 1), window_dilation=(1, 3))
    same_as_eager(run, X[:, :9] * 0.5)


@pytest.mark.parametrize("x", [X, NAN], ids=["plain", "nan"])
@pytest.mark.parametrize("pick", ["max", "min"])
def test_second_derivatives_of_pooling(x, pick):
    fold, start = (lax.max, -np.inf) if pick == "max" else (lax.min, np.inf)
    pool = lambda x: lax.reduce_window(x, np.float32(start), fold, (3, 3), (2, 2), "SAME")
    same_as_eager(lambda x, t: jax.jvp(pool, (x,), (t,))[1], x, X[::-1])


@pytest.mark.parametrize("reverse", [False, True])
def test_running_log_sum_of_exponentials(reverse):
    wide = np.concatenate([X * 30, np.full((6, 2), -np.inf, np.float32)], 1)
    same_as_eager(lambda x: lax.cumlogsumexp(x, axis=1, reverse=reverse), wide)


def normed(x):
    """A batch norm whose statistics are those of the batch that `vmap` makes; and a sum of no array."""
    mean = lax.pmean(x.mean(), "batch")
    var = lax.pmean(((x - mean) ** 2).mean(), "batch")
    return (x - mean) * lax.rsqrt(var + 1e-5) * lax.psum(1, "batch")


@pytest.mark.parametrize("function", [
    jax.vmap(normed, axis_name="batch"), jax.vmap(normed, 1, 1, axis_name="batch"),
    jax.vmap(lambda x: lax.pmax(x, "batch") - lax.pmin(x, "batch"), axis_name="batch"),
    jax.vmap(jax.vmap(lambda x: x / lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i"),
    jax.grad(lambda x: jnp.sin(jax.vmap(normed, axis_name="batch")(x)).sum()),
    jax.vmap(lambda x: lax.psum(jax.grad(lambda v: jnp.sin(v).sum())(x), "batch"), axis_name="batch"),
    lambda x: jax.vmap(lambda n: lax.psum(n, "batch"), axis_name="batch")(x.astype(np.int32))])
def test_collectives_of_a_mapped_axis_are_reductions(function):
    same_as_eager(function, X)
    assert "extern" not in str(lower_function(function, X))
