"""Short rows: lanes go across them where that is cheaper, and find the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import KernelStep
from dynacomp.lowering.kernel_ir.loops import Loop, statements
from dynacomp.lowering.kernel_ir.verifier import verify
from dynacomp.lowering.primitives.translate import lower_function


def nearest(x, c):
    return ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)


def means(x, c):
    mine = nearest(x, c)[:, None] == jnp.arange(c.shape[0])
    return jnp.where(mine[:, :, None], x[:, None], 0).sum(0) / jnp.maximum(mine.sum(0), 1)[:, None]


def normal(*shape, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def rows_of(function, *args):
    """Whether the lanes of each kernel of a function are its rows."""
    kernels = [verify(s.kernel) for s in of_class(KernelStep, schedule(lower_function(function, *args)).steps)]
    return [all(loop.vector == loop.parallel for loop in of_class(Loop, statements(k.body)) if loop.vector)
            for k in kernels]


def test_lanes_cross_where_that_is_cheaper():
    assert rows_of(nearest, normal(300, 2), normal(5, 2)) == [True]
    assert rows_of(lambda x: x.argmax(-1), normal(300, 10)) == [True]
    assert rows_of(lambda x: jax.nn.logsumexp(x, -1), normal(300, 10)) == [True]
    assert rows_of(lambda x: x.sum(-1), normal(300, 10)) == [False]  # every load would be a gather
    assert rows_of(lambda x: x.argmax(-1), normal(9, 10)) == [False]  # too few rows
    assert rows_of(lambda x: x.argmax(-1), normal(300, 100)) == [False]


def pooled(step, *size):
    def pool(x):
        start = jnp.asarray(-jnp.inf, x.dtype)
        return jax.lax.reduce_window(x, start, jax.lax.max, (1, *size), (1, *[step] * len(size)), "VALID")
    return pool


@pytest.mark.parametrize("columns", [12, 13, 31, 40])
@pytest.mark.parametrize(("step", "size"), [(1, 2), (2, 3), (3, 3), (4, 3)])
def test_windows_lie_side_by_side(columns, step, size):
    """A window of a few columns is no row of lanes: each lane has a window."""
    width = (columns - 1) * step + size
    x = normal(3, 9, width)
    assert rows_of(pooled(step, size, size), x) == [True]
    compiled = dynacomp.jit(pooled(step, size, size), fullgraph=True)
    for k in range(3):
        np.testing.assert_array_equal(compiled(x + k), pooled(step, size, size)(x + k))


@pytest.mark.parametrize("function, args", [
    (means, lambda k: (normal(300 + k % 4, 2, seed=k), normal(5, 2, seed=k + 1))),
    (lambda x: (x.argmax(-1), x.argmin(-1)), lambda k: (normal(130, 10, seed=k).at[5:9, k].set(jnp.nan),)),
    (lambda x: (jax.nn.softmax(x), jax.nn.one_hot(x.argmax(-1), 5)), lambda k: (normal(2, 77, 5, seed=k),)),
    (lambda x: jnp.argmax(x, -1), lambda k: (jnp.asarray(np.random.RandomState(k).randint(0, 3, (99, 8)), jnp.int8),)),
])
def test_the_same_values(function, args):
    compiled = dynacomp.jit(function, dynamic=True)
    before = dynacomp.stats()["frames_captured"]
    for k in range(10):
        for got, want in zip(jax.tree.leaves(compiled(*args(k))), jax.tree.leaves(function(*args(k))), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert dynacomp.stats()["frames_captured"] == before + 1


@pytest.mark.parametrize("kind", ["float32", "float64", "bool", "int8"])
def test_the_best_of_all_lanes(kind):
    """The first of equals wins, and the first NaN over all, wherever it lies."""
    random = np.random.RandomState(1)
    rows = random.randint(0, 3, (40, 67)).astype(kind)
    if kind.startswith("float"):
        rows[::2][random.rand(20, 67) < 0.05] = np.nan
        rows[1], rows[3] = -np.inf, np.inf
    with jax.enable_x64(kind == "float64"):
        x = jnp.asarray(rows)
        for function in (jnp.argmax, jnp.argmin):
            got = dynacomp.jit(lambda x, function=function: function(x, -1))(x)
            np.testing.assert_array_equal(got, function(x, -1))
