"""Special functions and bitcasts by rewrites, against eager JAX and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax import lax

import dynacomp
from dynacomp.codegen.xla import as_function
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import same_as_eager

EDGES = np.float32([0.0, -0.0, 1e-30, 0.5, 7.999, 8.0, 8.001, 20, 1e4, 3e38, np.inf, -np.inf, np.nan, -3, -12])


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions(order):
    function = (lax.bessel_i0e, lax.bessel_i1e)[order]
    same_as_eager(function, np.concatenate([EDGES, np.linspace(-40, 40, 400, dtype=np.float32)]))
    same_as_eager(function, EDGES.astype(jnp.bfloat16))


@pytest.mark.parametrize("order", [0, 1])
def test_strictness_is_asked_of_the_program_alone(order):
    function = (lax.bessel_i0e, lax.bessel_i1e)[order]
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        same_as_eager(function, EDGES.astype(jnp.bfloat16))


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions_in_double(order):
    with jax.enable_x64(True):
        x = np.linspace(-60, 60, 1001)
        exact = (scipy.special.i0e, scipy.special.i1e)[order](x)
        found = np.asarray(jax.jit(_rewritten((lax.bessel_i0e, lax.bessel_i1e)[order], x))(x))
        np.testing.assert_allclose(found, exact, rtol=5e-14)


def _rewritten(function, x):
    return lambda y: as_function(lower_function(function, x))(y)[0]


def test_zeta_and_polygamma():
    orders = [1.0, 1.1, 2, 2.5, 3, 7, 20, 0.5, 0, -2, -3]
    x, q = map(np.float32, np.meshgrid(orders, [0.1, 0.5, 1, 3.3, 12, 200, -0.5, -2, 0]))
    same_as_eager(lax.zeta, x, q)
    n, y = map(np.float32, np.meshgrid([0, 1, 2, 3, 6], [0.2, 1, 2.5, 17, 300]))
    same_as_eager(lax.polygamma, n, y, scale=3)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "betainc"])
def test_incomplete_functions(name):
    a, b, x = (np.float32(v).ravel() for v in np.meshgrid([0.3, 2, 11], [0.7, 4], [0.01, 0.4, 0.9]))
    args = (a, b, x) if name == "betainc" else (a, x * 8)
    same_as_eager(getattr(lax, name), *args, scale=3)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_approximate_top_k(largest, axis):
    find = lax.approx_max_k if largest else lax.approx_min_k
    x = np.random.RandomState(2).permutation(60).astype(np.float32).reshape(6, 10)
    same_as_eager(lambda x: find(x, 3, reduction_dimension=axis), x)


@pytest.mark.parametrize(("source", "target"), [
    p for p in itertools.product(["uint8", "int16", "float16", "bfloat16", "float32", "int32"], repeat=2)
    if np.dtype(getattr(jnp, p[0])).itemsize != np.dtype(getattr(jnp, p[1])).itemsize])
def test_bitcasts_that_change_the_width(source, target):
    source, target = np.dtype(getattr(jnp, source)), np.dtype(getattr(jnp, target))
    raw = np.random.RandomState(3).randint(0, 120, (3, 5, 8)).astype(np.uint8)  # no NaN: its bits may change
    x = raw.view(source)
    if target.itemsize > source.itemsize:
        x = x.reshape(3, -1, target.itemsize // source.itemsize)
    same_as_eager(lambda x: lax.bitcast_convert_type(x, target), x)


@pytest.mark.parametrize("dtype", ["uint4", "int4", "float4_e2m1fn"])
def test_bitcasts_of_numbers_of_half_a_byte(dtype):
    narrow = getattr(jnp, dtype)
    for x in (jnp.float16(2), jnp.arange(6.0).reshape(2, 3), jnp.int8([3, -4])):
        parts = lax.bitcast_convert_type(x, narrow)
        got = dynacomp.jit(lambda x: lax.bitcast_convert_type(x, narrow))(x)
        assert got.dtype == narrow and bool((got == parts).all())
        assert bool((dynacomp.jit(lambda p, d=x.dtype: lax.bitcast_convert_type(p, d))(parts) == x).all())


@pytest.mark.parametrize(("mode", "conjugate"), list(itertools.product(("left", "right"), (False, True))))
def test_few_reflectors_are_a_loop_of_ours(mode, conjugate):
    """GMRES of lineax asked XLA for each step."""
    def multiplied(a, c):
        return jax.scipy.linalg.qr_multiply(a, c, mode, conjugate=conjugate)

    random = np.random.RandomState(0)
    a, c = random.randn(3, 6, 4).astype(np.float32), random.randn(3, *((4, 2) if mode == "left" else (2, 6)))
    assert not _externs(multiplied, a[0], c[0].astype(np.float32))
    same_as_eager(multiplied, a[0], c[0].astype(np.float32), scale=50)
    same_as_eager(jax.vmap(multiplied), a + 1j * a[::-1], c.astype(np.complex64), scale=50)
    many = np.eye(65, dtype=np.float32)
    assert _externs(multiplied, many, many)


def _externs(function, *args):
    return [n for n in lower_function(function, *args).calls if getattr(n.target, "name", "") == "extern"]
