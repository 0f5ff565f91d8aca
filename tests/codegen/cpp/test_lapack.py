"""Decompositions, and factors and solves of large matrices, in one native call: eager JAX's results to the bit, where
its routine runs on the same numbers."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from tests.lowering.closed import same_as_eager, seams

DTYPES = ("float32", "complex64")


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def drawn(seed, shape, dtype="float32"):
    random = np.random.RandomState(seed)
    x = random.randn(*shape)
    return jnp.asarray((x + 1j * random.randn(*shape) if dtype.startswith("c") else x).astype(dtype))


def everything(a):
    """All decompositions of square matrices, tall ones and wide ones."""
    tall, wide = a[..., :5], a[..., :5, :]
    lines = [a[..., k, :].at[..., end].set(0) for k, end in ((0, 0), (2, -1))]
    return [
        *lax.linalg.lu(a), *jnp.linalg.qr(a), *jnp.linalg.qr(tall, mode="complete"), *jnp.linalg.qr(wide),
        *jnp.linalg.svd(a), *jnp.linalg.svd(tall, full_matrices=False), jnp.linalg.svd(wide, compute_uv=False),
        *lax.linalg.eigh(a, symmetrize_input=False), *lax.linalg.eigh(a, lower=False, symmetrize_input=False),
        *lax.linalg.eig(a), *jnp.linalg.eig(a), jnp.linalg.eigvals(a),
        lax.linalg.cholesky(a, symmetrize_input=False),
        lax.linalg.triangular_solve(a, tall, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
        lax.linalg.triangular_solve(a, wide, left_side=False, conjugate_a=True, unit_diagonal=True),
        lax.linalg.tridiagonal_solve(lines[0], a[..., 1, :] + 5, lines[1], a),
    ]


def same(got, want):
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_as_eager_jax(dtype):
    """Sizes that change, batches, numbers that are none: one native call each."""
    compiled = dynacomp.jit(everything)
    for seed, shape in enumerate([(70, 70), (66, 66), (83, 83), (2, 71, 71)]):
        a = drawn(seed, shape, dtype)
        same(compiled(a), everything(a))
    broken = drawn(9, (70, 70), dtype).at[3, 4].set(np.nan)
    same(compiled(broken), everything(broken))
    stats = dynacomp.stats()
    assert not stats["externs"] and set(stats["regions"]) == {"cpp"} and not stats["breaks"]
    assert stats["frames_captured"] <= 3


def test_solves_of_sizes_that_change():
    def fn(a, b):
        return jnp.linalg.solve(a @ a.T + jnp.eye(a.shape[0]) * 9, b)

    compiled = dynacomp.jit(fn)
    for n in (3, 5, 65, 80, 96):
        a, b = drawn(n, (n, n)), drawn(n + 1, (n,))
        np.testing.assert_allclose(compiled(a, b), fn(a, b), rtol=2e-3, atol=1e-4)
    stats = dynacomp.stats()
    assert not stats["externs"] and stats["frames_captured"] <= 2


@pytest.mark.medium
def test_gradients():
    def loss(a):
        q, r = jnp.linalg.qr(a)
        values = jnp.linalg.eigvalsh(a @ a.T)
        s = jnp.linalg.svd(a, compute_uv=False)
        return jnp.sum(q * jnp.sin(r)) + jnp.log(values + 1).sum() + (s ** 2).sum() + jnp.linalg.slogdet(a)[1]

    compiled = dynacomp.jit(jax.grad(loss))
    for seed in range(3):
        a = drawn(seed, (9, 9)) + 9 * jnp.eye(9)
        np.testing.assert_allclose(compiled(a), jax.grad(loss)(a), rtol=2e-3, atol=1e-4)
    assert not dynacomp.stats()["externs"]


def test_failures_are_nan():
    compiled = dynacomp.jit(lambda a: (*jnp.linalg.eigh(a), *jnp.linalg.eig(a), *jnp.linalg.svd(a)))
    good = drawn(0, (3, 6, 6))
    for broken in (np.nan, np.inf):
        a = good.at[1, 2, 3].set(broken)
        for got, want in zip(compiled(a), (*jnp.linalg.eigh(a), *jnp.linalg.eig(a), *jnp.linalg.svd(a))):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_allclose(got[::2], want[::2], rtol=1e-4, atol=1e-5)


def test_a_small_factor_of_numbers_that_are_none():
    """Which rows LAPACK swaps where it meets NaN is for LAPACK to say."""
    compiled = dynacomp.jit(lax.linalg.lu)
    for place in ((0, 0), (3, 1), (7, 7)):
        a = drawn(1, (8, 8)).at[place].set(np.nan)
        for got, want in zip(compiled(a), lax.linalg.lu(a)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_matrices_without_elements():
    compiled = dynacomp.jit(lambda a: (*jnp.linalg.svd(a), *jnp.linalg.qr(a), *jnp.linalg.qr(a, mode="complete")))
    for shape in ((0, 3), (3, 0), (2, 0, 4), (0, 2, 2)):
        a = jnp.zeros(shape)
        same(compiled(a), (*jnp.linalg.svd(a), *jnp.linalg.qr(a), *jnp.linalg.qr(a, mode="complete")))


def test_references():
    a, tall = np.asarray(drawn(0, (2, 5, 5))), np.asarray(drawn(1, (2, 6, 4)))
    same_as_eager(lambda x: jnp.linalg.qr(x), tall, scale=50)
    same_as_eager(lambda x: jnp.linalg.svd(x, full_matrices=False), tall, scale=50)
    same_as_eager(lambda x: jnp.linalg.svd(x, compute_uv=False), tall, scale=50)
    same_as_eager(lambda x: lax.linalg.eigh(x), a, scale=50)
    same_as_eager(lambda x: jnp.linalg.eigvals(x), a, scale=50)
    below, above = (np.asarray(a[..., k] * np.roll([0, 1, 1, 1, 1], k)) for k in (0, -1))
    same_as_eager(lax.linalg.tridiagonal_solve, below, a[..., 1] + 5, above, a, scale=50)


def test_what_is_left_to_xla():
    a = np.eye(5, dtype=np.float32)
    assert not seams(jnp.linalg.svd, a) and not seams(jnp.linalg.cholesky, np.eye(65, dtype=np.float32))
    assert seams(lambda x: lax.linalg.svd(x, algorithm=lax.linalg.SvdAlgorithm.QR), a) \
        == ["svd with algorithm=SvdAlgorithm.QR"]


def seconds(fn, a):
    """Of the quickest of a few calls."""
    jax.block_until_ready(fn(a))
    found = []
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(fn(a))
        found.append(time.perf_counter() - start)
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inv", "qr", "svd", "eigh", "cholesky"])
def test_a_batch_costs_what_its_matrices_cost(name):
    """LAPACK's threads and ours do not wait for each other: a batch took thirty times as long as its matrices."""
    def fn(a):
        return jax.tree.leaves(getattr(jnp.linalg, name)(a))

    compiled = dynacomp.jit(fn, options={"measure": False})
    for n in (33, 48, 80):
        a = drawn(n, (10, n, n))
        a = a @ a.swapaxes(1, 2) + n * jnp.eye(n)
        for got, want in zip(compiled(a), fn(a), strict=True):
            np.testing.assert_allclose(jnp.abs(got), jnp.abs(want), rtol=2e-2, atol=2e-2 * float(jnp.abs(want).max()))
        assert seconds(compiled, a) < 12 * 10 * seconds(compiled, a[:1])  # of a busy machine, too
    assert not dynacomp.stats()["externs"]


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 32, 33, 47, 65])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_factors_and_solves_of_all_shapes(n, dtype):
    """Ours and LAPACK's, whole registers of rows and what is left of them; one matrix and several."""
    def fn(a, b):
        positive, solve = a @ a.conj().swapaxes(-1, -2), jax.scipy.linalg.solve_triangular
        return (lax.linalg.lu(a)[0], jnp.linalg.solve(a, b), jnp.linalg.cholesky(positive), solve(a, b, trans=1),
                solve(a, b[..., :1], lower=True))

    compiled = dynacomp.jit(fn, dynamic=False)
    for batch in ((), (3,)):
        a = drawn(n, (*batch, n, n), dtype) + 2 * n * jnp.eye(n, dtype=dtype)
        b = drawn(n + 1, (*batch, n, 6), dtype)
        for got, want in zip(compiled(a, b), fn(a, b), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4 * float(jnp.abs(want).max()))
    assert not dynacomp.stats()["externs"]
