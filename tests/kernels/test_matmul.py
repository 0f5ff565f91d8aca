"""matmul: every layout, skinny and empty shapes, every dtype, against float64."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build
from dynacomp.kernels.templates import TEMPLATES

SYMBOLS = dict(zip("batch m n k".split(), sympy.symbols("batch m n k", integer=True)))
STRIDES = {"a_strides": sympy.symbols("ab am ak", integer=True), "b_strides": sympy.symbols("bb bk bn", integer=True)}
DTYPES = {
    "f32": ("float32",) * 3,
    "f64": ("float64",) * 3,
    "bf16": ("bfloat16",) * 3,
    "f16": ("float16",) * 3,
    "bf16_f32": ("bfloat16", "bfloat16", "float32"),
    "f32_bf16": ("float32", "bfloat16", "float32"),
    "i32": ("int32",) * 3,
    "i8_i32": ("int8", "int8", "int32"),
    "i8": ("int8",) * 3,
    "s8u8_i32": ("int8", "uint8", "int32"),
    "u8s8_i32": ("uint8", "int8", "int32"),
    "u8_i64": ("uint8", "uint8", "int64"),
    "u64": ("uint64",) * 3,
}
TOLERANCE = {"float32": 1e-6, "float64": 2e-15, "bfloat16": 4e-3, "float16": 5e-4}

# (batch, m, n, k): one tile, edges, several blocks, skinny (one group of rows, and more), many small, empty
SHAPES = [
    (1, 1, 1, 1),
    (1, 8, 32, 16),
    (1, 7, 31, 17),
    (1, 13, 45, 300),
    (1, 130, 70, 513),
    (1, 1, 100, 64),
    (1, 100, 1, 64),
    (1, 3, 200, 130),
    (1, 200, 3, 130),
    (1, 600, 530, 40),
    (5, 9, 33, 12),
    (3, 40, 16, 64),
    (1, 128, 10, 256),
    (2, 1, 130, 2500),
    (1, 7, 40, 300),
    (1, 15, 45, 270),
    (1, 6, 700, 390),
    (1, 13, 3001, 702),
    (0, 2, 3, 4),
    (2, 0, 3, 4),
    (2, 3, 0, 4),
    (2, 3, 4, 0),
    (2, 300, 200, 3),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    calls = {name: Call("matmul", dtypes, {**SYMBOLS, **STRIDES}) for name, dtypes in DTYPES.items()}
    return build(calls, tmp_path_factory.getbasetemp().parent)


def values(rng, size, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, size, dtype)
    return rng.standard_normal(size).astype(dtype)


def layout(order, batch, rows, cols):
    """Element strides of [batch, rows, cols]: C, F (transposed), G (gaps between elements), B (batch innermost)."""
    return {
        "C": (rows * cols, cols, 1),
        "F": (rows * cols, 1, rows),
        "G": (2 * rows * cols, 2 * cols, 2),
        "B": (1, cols * batch, batch),
        "0": (0, cols, 1),
    }[order]


def check(library, name, shape, orders=("C", "C"), seed=0):
    batch, m, n, k = shape
    rng = np.random.default_rng(seed)
    dtypes = DTYPES[name]
    a = values(rng, 2 * batch * m * k + 1, dtypes[0])
    b = values(rng, 2 * batch * k * n + 1, dtypes[1])
    out = np.zeros((batch, m, n), dtypes[2])
    params = {"batch": batch, "m": m, "n": n, "k": k}
    params["a_strides"], params["b_strides"] = layout(orders[0], batch, m, k), layout(orders[1], batch, k, n)
    sizes = {"batch": batch, "m": m, "n": n, "k": k}
    sizes |= dict(zip("ab am ak".split(), params["a_strides"])) | dict(zip("bb bk bn".split(), params["b_strides"]))
    library.run(name, sizes, [a, b], [out])
    if out.dtype.kind in "iu":
        (expected,) = TEMPLATES["matmul"].reference(params, a, b, dtype=out.dtype)
        np.testing.assert_array_equal(out, expected)
        return
    (expected,) = TEMPLATES["matmul"].reference(params, a, b, dtype=np.float64)
    (scale,) = TEMPLATES["matmul"].reference(params, np.abs(a), np.abs(b), dtype=np.float64)
    error = np.abs(out.astype(np.float64) - expected)
    assert (error <= TOLERANCE[dtypes[2]] * (scale + 1e-30)).all(), (error / (scale + 1e-30)).max()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", DTYPES)
def test_shapes(library, name, shape):
    check(library, name, shape)


@pytest.mark.parametrize("depth", [1, 2, 4, 16, 31, 32, 33, 63, 64, 4096, 4100, 9000])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i8_i32", "bf16", "f16", "bf16_f32"])
def test_few_columns_or_rows(library, name, depth):
    """Short depths go by tiles whose rows are stored by their number of columns, deep ones by dot products."""
    for few in (1, 2, 3, 4, 5, 8, 14):
        check(library, name, (1, 21, few, depth))
        check(library, name, (2, few, 21, depth), ("C", "F"))
        check(library, name, (1, 21, few, depth), ("F", "F"))


@pytest.mark.parametrize("depth", [15, 16, 17, 40, 130, 4096, 4100])
@pytest.mark.parametrize("name", ["f32", "f64", "f32_bf16", "bf16", "i32"])
def test_many_rows_and_few_columns(library, name, depth):
    """They are summed up along the depth, several rows with all columns at once; the last rows twice."""
    for few in (2, 3, 4, 5, 8, 9) if depth < 4096 else (3,):
        check(library, name, (1, 67, few, depth))
        check(library, name, (2, 130, few, depth), ("B", "F"))


def test_what_lies_between_rows_is_left_out(library):
    a = np.full((70, 24), np.nan, np.float32)
    a[:, :19] = np.random.default_rng(0).random((70, 19), np.float32)
    b, out = np.random.default_rng(1).random((19, 3), np.float32), np.empty((1, 70, 3), np.float32)
    sizes = {"batch": 1, "m": 70, "n": 3, "k": 19, "ab": 0, "am": 24, "ak": 1, "bb": 0, "bk": 3, "bn": 1}
    library.run("f32", sizes, [a.reshape(-1), b], [out])
    np.testing.assert_allclose(out[0], a[:, :19] @ b, rtol=1e-5)


def test_deep_dot_products_round_little(library):
    """Of many elements, in pieces: their error does not grow with the depth."""
    k, rng = 1 << 16, np.random.default_rng(0)
    a, b, out = rng.random((40, k), np.float32), rng.random((k, 3), np.float32), np.zeros((40, 3), np.float32)
    sizes = dict(batch=1, m=40, n=3, k=k, ab=0, am=k, ak=1, bb=0, bk=3, bn=1)
    library.run("f32", sizes, [a, b], [out])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.sqrt(np.mean((out - expected) ** 2)) < 1.5e-7 * expected.max()


@pytest.mark.parametrize("orders", list(itertools.product("CFGB0", repeat=2)))
@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "i8_i32", "s8u8_i32"])
def test_layouts(library, name, orders):
    for shape in [(3, 21, 37, 50), (2, 3, 40, 33), (2, 40, 2, 33), (1, 1, 65, 40)]:
        check(library, name, shape, orders)


@pytest.mark.parametrize("name", ["i8_i32", "u8_i64", "i8", "s8u8_i32", "u8s8_i32"])
def test_the_largest_bytes_are_exact(library, name):
    """They are multiplied as floats, whose sums stay below 2^24 in a block and are integers from then on."""
    a, b, c = (np.iinfo(d) for d in DTYPES[name])
    first, second = a.min or a.max, b.min or b.max
    m, n, k = 9, 35, 70000
    out = np.empty((1, m, n), c.dtype)
    sizes = {"batch": 1, "m": m, "n": n, "k": k, "ab": 0, "am": k, "ak": 1, "bb": 0, "bk": n, "bn": 1}
    left, right = np.full((m, k), first, a.dtype), np.full((k, n), second, b.dtype)
    library.run(name, sizes, [left, right], [out])
    np.testing.assert_array_equal(out, np.int64(int(first) * int(second) * k).astype(c.dtype))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_nan_and_infinity(library, name):
    """They reach exactly the results that they belong to; the padding of edges adds nothing."""
    dtype = DTYPES[name][0]
    for m, n, k in [(9, 35, 20), (2, 40, 33)]:
        a, b = np.ones((m, k), dtype), np.ones((k, n), dtype)
        a[1, 3], b[2, n - 1] = np.nan, np.inf
        out = np.empty((1, m, n), dtype)
        sizes = {"batch": 1, "m": m, "n": n, "k": k, "ab": 0, "am": k, "ak": 1, "bb": 0, "bk": n, "bn": 1}
        library.run(name, sizes, [a, b], [out])
        np.testing.assert_array_equal(out[0], a @ b)


@pytest.mark.parametrize("m,n", [(24, 40), (2, 64), (1, 64), (64, 1)])
def test_long_sums_are_as_good_as_jax(library, m, n):
    """Not further from float64 than twice eager JAX, for each way that sums are made."""
    k = 20000
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    out = np.empty((1, m, n), np.float32)
    library.run(
        "f32", {"batch": 1, "m": m, "n": n, "k": k, "ab": 0, "am": k, "ak": 1, "bb": 0, "bk": n, "bn": 1}, [a, b], [out]
    )
    theirs = np.abs(np.asarray(jnp.dot(a, b)) - exact).max()
    assert np.abs(out[0] - exact).max() <= 2 * theirs
