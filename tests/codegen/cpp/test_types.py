"""Values of every pair of dtypes in one region: what comes out is eager JAX's, and nothing goes to XLA."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")


def data(dtype, columns):
    """Three rows of small numbers, each a value of the dtype."""
    numbers = (np.arange(3 * columns) * 37 % 23).reshape(3, columns)
    numbers = numbers % 2 if dtype == "bool" else numbers - (0 if dtype[0] in "bu" else 11)
    return jnp.asarray(numbers).astype(dtype)


def check(fn, *args):
    dynacomp.reset()
    found, wanted = dynacomp.jit(fn)(*args), fn(*args)
    stats = dynacomp.stats()
    assert stats["regions"] == {"cpp": 1} and not stats["externs"] and not stats["breaks"], stats
    for name, one in found.items():
        other = wanted[name]
        assert (one.dtype, one.shape, one.weak_type) == (other.dtype, other.shape, other.weak_type), name
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=1e-6, atol=1e-6,
                                   err_msg=name)


OPERATIONS = {
    "gt": jnp.greater, "le": jnp.less_equal, "eq": jnp.equal, "ne": jnp.not_equal, "add": jnp.add, "mul": jnp.multiply,
    "max": jnp.maximum, "min": jnp.minimum, "where": lambda x, y: jnp.where(x > y, x, y),
    "where_other": lambda x, y: jnp.where(y, x, 3), "nested": lambda x, y: (x + y > y) == (y >= x),
    "convert": lambda x, y: x.astype(y.dtype) * y + x.astype(jnp.float32)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_dtypes_in_one_operation(dtype):
    def both(x, others):
        return {f"{name} of {dtype} and {y.dtype}": op(x, y) for y in others for name, op in OPERATIONS.items()}

    others = DTYPES[DTYPES.index(dtype):]  # the pairs of the others are in their tests
    check(both, data(dtype, 19), [data(d, 19) for d in others])
    check(lambda x, ys: {str(y.dtype): op(y, x) for y in ys for op in (jnp.greater, jnp.maximum)}, data(dtype, 19),
          [data(d, 19) for d in others])


def in_rows(x):
    """Keeps a row of the dtype of `x`, for it is dear, and folds it; both are read again as other dtypes."""
    if x.dtype == bool:
        kept = jnp.sin(x.astype(jnp.float32)) > 0.5
    else:
        kept = functools.reduce(lambda y, n: lax.rem(y * 5, lax.full_like(y, n)), range(23, 12, -1), x)
    most = jnp.max(kept, axis=1, keepdims=True)
    return kept.astype(jnp.float32) > most.astype(jnp.float32) * 0.5, (kept < most), kept.astype(jnp.int32) - most


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_kernels_keep_rows_of_two_dtypes(dtype):
    """Their rows and accumulators have the same names."""
    def one_after_the_other(x, others):
        results = {f"{dtype} {k}": v for k, v in enumerate(in_rows(x))}
        for y in others:
            results |= {f"{y.dtype} after {dtype} {k}": v for k, v in enumerate(in_rows(y))}
        return results

    check(one_after_the_other, data(dtype, 19), [data(d, 19)[:2] for d in DTYPES])


ENDS = [s * (2.0**bits + off) for bits in (7, 8, 15, 16, 31, 32) for s in (1, -1) for off in (-1, -0.5, 0, 0.5, 1)]
EDGES = [0.0, -0.0, 0.999, -0.999, 1.9, -1.9, *ENDS, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-40]


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_floats_beyond_the_ends_of_integers(to):
    """Whole registers, a part of one, and single numbers."""
    numbers = np.array(EDGES + EDGES[::-1], np.float32)
    of = {name: jnp.asarray(numbers).astype(name) for name in ("float16", "bfloat16", "float32")}
    check(lambda of: {f"{name} {k}": x.astype(to) for name, whole in of.items()
                      for k, x in enumerate((whole, whole[:3], whole[4], whole.reshape(2, -1).T))}, of)


def test_every_half_there_and_back():
    """All 65,536 numbers of 16 bits to float32 and back, and floats halfway between two: in whole registers."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    floats = halves.astype(np.float32)
    with np.errstate(all="ignore"):
        between = np.concatenate([floats, (floats + np.nextafter(floats, np.float32(np.inf))) / 2,
                                  (floats[:-1] + floats[1:]) / 2, floats * np.float32(1.0004883)])
    check(lambda of: {"up": of["h"].astype(jnp.float32), "sum": of["h"] * 2 + of["h"], "down": of["f"].astype(
        jnp.float16)}, {"h": jnp.asarray(halves), "f": jnp.asarray(between)})
