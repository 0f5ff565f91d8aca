"""attention: shapes, layouts, causal and bias masks, dtypes, against float64."""

import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build
from dynacomp.kernels.templates import TEMPLATES

SIZES = ("batch", "heads", "group", "queries", "keys", "depth", "width")
FILLS = (-np.inf, -1e9, -9.0)
TOLERANCE = {"float32": 1e-6, "bfloat16": 8e-3, "float16": 1e-3}


def symbolic(causal, bias, fill=-np.inf):
    params = {s: sympy.Symbol(s, integer=True) for s in SIZES}
    names = ["q", "k", "v", "out"] + ["bias"] * bias
    strides = {f"{x}_strides": sympy.symbols([f"{x}{i}" for i in range(5)], integer=True) for x in names}
    return params | strides | {"scale": 0.3, "causal": causal, "marks": bias, "fill": fill}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    calls = {
        f"{d}_{causal}_{bias}_{FILLS.index(fill)}": Call("attention", (d,) * (4 + bias), symbolic(causal, bias, fill))
        for d in TOLERANCE
        for causal in (False, True)
        for bias in (False, True)
        for fill in FILLS
        if d == "float32" or not bias
    }
    return build(calls, tmp_path_factory.getbasetemp().parent)


def strides(b, h, g, rows, columns, heads_inside):
    if heads_inside:
        return rows * h * g * columns, g * columns, columns, h * g * columns, 1
    return h * g * rows * columns, g * rows * columns, rows * columns, columns, 1


def shared(b, h, g, rows, columns, heads_inside):
    """Of keys and values, one for all heads of a group."""
    found = strides(b, h, 1, rows, columns, heads_inside)
    return *found[:2], 0, *found[3:]


def check(library, dtype, sizes, causal=False, bias=None, heads_inside=False, fill=-np.inf):
    b, h, g, s, t, d, w = sizes
    rng = np.random.default_rng(0)
    shapes = {"q": (s, d), "k": (t, d), "v": (t, w), "out": (s, w)}
    params = dict(zip(SIZES, sizes)) | {
        f"{x}_strides": (shared if x in "kv" else strides)(b, h, g, *n, heads_inside) for x, n in shapes.items()}
    arrays = [rng.standard_normal(b * h * (g if x == "q" else 1) * np.prod(shapes[x])).astype(dtype) for x in "qkv"]
    if bias is not None:
        params["bias_strides"] = (0, 0, 0, t, 1)
        arrays.append(bias.astype(dtype))
    params |= {"scale": 0.3, "causal": causal, "marks": bias is not None, "fill": fill}
    figures = {k: v for k, v in params.items() if not isinstance(v, tuple)}
    figures |= {f"{k[:-8]}{i}": x for k, v in params.items() if isinstance(v, tuple) for i, x in enumerate(v)}
    out = np.zeros(b * h * g * s * w, dtype)
    library.run(f"{dtype}_{causal}_{bias is not None}_{FILLS.index(fill)}", figures, arrays, [out])
    with np.errstate(invalid="ignore"):
        (expected,) = TEMPLATES["attention"].reference(params, *arrays)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=0, atol=TOLERANCE[dtype] * 4)
    return out


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 3, 1, 17, 17, 8, 8),
        (1, 2, 3, 64, 64, 32, 32),
        (1, 1, 2, 130, 600, 40, 24),
        (1, 2, 1, 600, 300, 16, 70),
        (1, 1, 1, 1, 700, 64, 64),
        (3, 1, 2, 5, 1, 4, 4),
        (0, 2, 1, 4, 4, 4, 4),
        (1, 2, 1, 0, 4, 4, 4),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_shapes(library, dtype, causal, sizes):
    check(library, dtype, sizes, causal)
    check(library, dtype, sizes, causal, heads_inside=True)


def test_bias(library):
    bias = np.random.default_rng(1).standard_normal((300, 290))
    bias[:, :260] = np.where(np.arange(300)[:, None] % 3 == 0, -np.inf, bias[:, :260])  # whole key blocks masked
    check(library, "float32", (2, 2, 1, 300, 290, 16, 16), bias=bias)


def test_nothing_seen_and_nan(library):
    """A query whose keys are all masked gives NaN; a NaN reaches its own query only."""
    bias = np.zeros((4, 20))
    bias[1] = -np.inf
    bias[2, 3] = np.nan
    out = check(library, "float32", (1, 1, 1, 4, 20, 8, 8), bias=bias)
    assert np.isnan(out.reshape(4, 8)).all(1).tolist() == [False, True, True, False]


@pytest.mark.parametrize("fill", FILLS[1:])
@pytest.mark.parametrize("shape", [(40, 50), (300, 290), (50, 30)])
def test_hidden_keys_have_a_score(library, fill, shape):
    """What is hidden counts where nothing that is seen is larger: in a row that hides everything, or much."""
    s, t = shape
    check(library, "float32", (2, 1, 2, s, t, 8, 24), causal=True, fill=fill)
    marks = np.where(np.random.default_rng(1).random((s, t)) > 0.5, -np.inf, 0)
    marks[3] = -np.inf
    check(library, "float32", (2, 1, 2, s, t, 8, 24), bias=marks, fill=fill)
    check(library, "float32", (2, 1, 2, s, t, 8, 24), bias=np.where(marks == 0, 2 * fill, marks), fill=fill)
    rows = np.arange(s)[:, None]
    low = np.where((rows % 3 == 0) & (rows < t - 1), 4 * fill, 0) + np.zeros((s, t))
    check(library, "float32", (2, 1, 2, s, t, 8, 24), causal=True, bias=low, fill=fill)
