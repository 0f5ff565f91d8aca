"""Elementwise functions where floats end: zeros, subnormals, the smallest and largest numbers, infinities, NaN.

What eager JAX gives there is the specification, operation by operation: bfloat16 computes as float32 does, whose
subnormals XLA flushes in arithmetic and keeps in what only moves bits; those of float16 are normal in float32.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.scipy import special

import dynacomp

NUMPY = """abs negative sign sqrt cbrt reciprocal square exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan
    sinh cosh tanh arcsinh arccosh arctanh floor ceil rint trunc isnan isinf isfinite signbit nan_to_num positive fabs
    deg2rad rad2deg sinc"""
LAX = """neg abs sign sqrt rsqrt cbrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh floor ceil round is_finite lgamma erf erfc erf_inv square"""
SPECIAL = "gammaln erf erfc erfinv entr"
PAIRS = """add sub mul div rem max min atan2 nextafter eq ne lt le gt ge"""
NUMPY_PAIRS = "maximum minimum fmax fmin add multiply equal less greater copysign heaviside"
# Left out are jitted functions of several operations that XLA makes one of (logical_not of a subnormal bfloat16), and
# XLA's results that are no answers: asin of the smallest numbers is 0 there, and of float16's subnormals rounded twice.
OURS = {"asin", "arcsin", "expm1"}


def values(dtype):
    info = ml_dtypes.finfo(dtype)
    tiny, last = float(info.tiny), float(info.smallest_subnormal)
    above = [0.0, last, 3 * last, tiny / 2, 0.75 * tiny, tiny, 3 * tiny, float(info.max) / 2, float(info.max), np.inf]
    return np.array([*above, *(-x for x in above), np.nan], np.float64).astype(dtype)


def agree(found, wanted):
    """The same bits but for four units in the last place of normal numbers."""
    x, y = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))
    if jnp.issubdtype(wanted.dtype, jnp.floating):
        info = ml_dtypes.finfo(wanted.dtype)
        with np.errstate(invalid="ignore"):
            same |= (abs(x - y) <= 4 * float(info.eps) * abs(y)) & (abs(y) >= float(info.tiny)) & np.isfinite(y)
    return same


def check(functions, *args):
    def all_of_them(*args):
        return {name: fn(*args) for name, fn in functions.items()}

    dynacomp.reset()
    found = dynacomp.jit(all_of_them)(*args)
    assert dynacomp.stats()["regions"] == {"cpp": 1} and not dynacomp.stats()["externs"]
    wrong = []
    for name, fn in functions.items():
        wanted = fn(*args)
        assert found[name].dtype == wanted.dtype, name
        at = np.flatnonzero(~agree(found[name], wanted))
        wrong += [f"{name}{tuple(a[k].item() for a in args)} = {found[name][k]}, eager {wanted[k]}" for k in at]
    assert not wrong, "\n".join(wrong)


def named(module, names):
    return {f"{module.__name__}.{name}": getattr(module, name) for name in names.split() if name not in OURS}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_functions_of_one_number(dtype):
    functions = named(jnp, NUMPY) | named(lax, LAX) | named(special, SPECIAL)
    functions |= {"clip": lambda x: jnp.clip(x, -1, 3), "bool": lambda x: x.astype(bool),
                  "float32": lambda x: x.astype(jnp.float32)}
    check(functions, jnp.asarray(values(dtype)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_functions_of_two_numbers(dtype):
    numbers = values(dtype)
    x, y = jnp.asarray(np.repeat(numbers, len(numbers))), jnp.asarray(np.tile(numbers, len(numbers)))
    functions = named(lax, PAIRS) | named(jnp, NUMPY_PAIRS)
    functions |= {"clamp": lambda x, y: lax.clamp(y, x, y), "wider": lambda x, y: jnp.minimum(x, y.astype(jnp.float32)),
                  "where": lambda x, y: jnp.where(x < y, x, y)}
    check(functions, x, y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits_of_whole_numbers_are_counted(dtype):
    info = np.iinfo(dtype)
    drawn = np.random.default_rng(0).integers(info.min, info.max, 300, dtype, endpoint=True)
    with jax.enable_x64(True):
        x = jnp.asarray(np.concatenate([drawn, np.array([info.min, info.max, 0, 1], dtype)]))
        check({"population_count": lax.population_count, "clz": lax.clz}, x)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_powers_and_angles_where_a_whole_register_is_odd(dtype):
    """Each pair fills a register: what one lane is sent to the C library for is not what others would be."""
    info = ml_dtypes.finfo(dtype)
    numbers = np.array([0, 1, 2, 3, 0.5, 1.5, 31, 127, 8388607, 16777217, 1e-3, float(info.tiny) / 2, float(info.tiny),
                        float(info.max), np.inf])
    with np.errstate(over="ignore"):
        x, y = (g.ravel() for g in np.meshgrid(*2 * [np.array([*numbers, *-numbers, np.nan]).astype(dtype)]))
    x, y = (jnp.asarray(np.repeat(g, 16)) for g in (x, y))
    check({"power": lambda x, y: x ** y, "arctan2": jnp.arctan2}, x, y)
