"""sort and top_k: every dtype, ties, NaNs and zeros, many operands and keys, against NumPy and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build
from dynacomp.kernels.templates import TEMPLATES

KEYS = ["float32", "float64", "bfloat16", "float16", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool"]
A, N, B, ROWS, K = sympy.symbols("a n b rows k", integer=True)


def sort_call(dtypes, keys):
    params = {"dimension": 1, "num_keys": keys, "is_stable": True, "shapes": ((A, N, B),) * len(dtypes)}
    return Call("sort", (*dtypes, *dtypes), params, results=len(dtypes))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    calls = {f"sort_{d}": sort_call((d, "int32"), 1) for d in KEYS}
    calls["two_keys"] = sort_call(("float32", "int32", "complex128", "int16"), 2)
    calls |= {
        f"top_{d}": Call("top_k", (d, d, "int32"), {"rows": ROWS, "n": N, "k": K}, results=2)
        for d in KEYS
        if d != "bool"
    }
    return build(calls, tmp_path_factory.getbasetemp().parent)


def values(rng, shape, dtype):
    """Few distinct values (ties) and the special ones."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return (
            rng.integers(0, 2, shape).astype(dtype)
            if dtype.kind == "b"
            else rng.integers(max(-50, np.iinfo(dtype).min), 50, shape).astype(dtype)
        )
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan, 1e-40])
    plain = np.round(rng.standard_normal(shape), 2)
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), plain).astype(dtype)


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("shape", [(3, 7, 1), (2, 300, 1), (1, 5000, 1), (4, 60, 5), (0, 4, 2), (2, 0, 2), (2, 1, 3)])
@pytest.mark.parametrize("dtype", KEYS)
def test_one_key(library, dtype, shape):
    x = values(np.random.default_rng(1), shape, dtype)
    index = np.broadcast_to(np.arange(shape[1], dtype=np.int32)[None, :, None], shape).copy()
    out = library.run(
        f"sort_{dtype}", {"a": shape[0], "n": shape[1], "b": shape[2]}, [x, index], [x.copy(), index.copy()]
    )
    expected = TEMPLATES["sort"].reference({"dimension": 1, "num_keys": 1}, x, index)
    for ours, theirs in zip(out, expected):
        np.testing.assert_array_equal(bits(ours), bits(theirs))


def test_two_keys_and_payloads(library):
    rng = np.random.default_rng(2)
    shape = (2, 400, 3)
    arrays = [
        values(rng, shape, "float32"),
        values(rng, shape, "int32"),
        rng.standard_normal(shape) + 1j * rng.standard_normal(shape),
        values(rng, shape, "int16"),
    ]
    out = library.run("two_keys", {"a": 2, "n": 400, "b": 3}, arrays, [a.copy() for a in arrays])
    for ours, theirs in zip(out, TEMPLATES["sort"].reference({"dimension": 1, "num_keys": 2}, *arrays)):
        np.testing.assert_array_equal(ours, theirs)


def test_order_is_that_of_jax(library):
    x = values(np.random.default_rng(3), (1, 500, 1), "float32")
    index = np.arange(500, dtype=np.int32).reshape(x.shape)
    out = library.run("sort_float32", {"a": 1, "n": 500, "b": 1}, [x, index], [x.copy(), index.copy()])
    expected = jax.lax.sort((jnp.asarray(x), jnp.asarray(index)), dimension=1, num_keys=1)
    np.testing.assert_array_equal(out[1], np.asarray(expected[1]))


@pytest.mark.parametrize("rows,n,k", [(3, 40, 5), (2, 1000, 7), (2, 1000, 100), (1, 1000, 1000), (5, 9, 9), (2, 5, 0)])
@pytest.mark.parametrize("dtype", [d for d in KEYS if d != "bool"])
def test_top_k(library, dtype, rows, n, k):
    x = values(np.random.default_rng(4), (rows, n), dtype)
    out = [np.zeros((rows, k), dtype), np.zeros((rows, k), np.int32)]
    library.run(f"top_{dtype}", {"rows": rows, "n": n, "k": k}, [x], out)
    expected = TEMPLATES["top_k"].reference({"rows": rows, "n": n, "k": k}, x)
    np.testing.assert_array_equal(out[1], expected[1])
    np.testing.assert_array_equal(bits(out[0]), bits(expected[0]))


def test_top_k_is_that_of_jax(library):
    x = values(np.random.default_rng(5), (4, 300), "float32")
    out = [np.zeros((4, 9), np.float32), np.zeros((4, 9), np.int32)]
    library.run("top_float32", {"rows": 4, "n": 300, "k": 9}, [x], out)
    np.testing.assert_array_equal(out[1], np.asarray(jax.lax.top_k(x, 9)[1]))
