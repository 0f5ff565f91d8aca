"""attention: shapes, layouts, causal and bias masks, dtypes, against float64."""

import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build
from dynacomp.kernels.templates import TEMPLATES

SIZES = ("batch", "heads", "queries", "keys", "depth", "width")
TOLERANCE = {"float32": 1e-6, "bfloat16": 8e-3, "float16": 1e-3}


def symbolic(causal, bias):
    params = {s: sympy.Symbol(s, integer=True) for s in SIZES}
    names = ["q", "k", "v", "out"] + ["bias"] * bias
    strides = {f"{x}_strides": sympy.symbols([f"{x}{i}" for i in range(4)], integer=True) for x in names}
    return params | strides | {"scale": 0.3, "causal": causal}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    calls = {
        f"{d}_{causal}_{bias}": Call("attention", (d,) * (4 + bias), symbolic(causal, bias))
        for d in TOLERANCE
        for causal in (False, True)
        for bias in (False, True)
        if d == "float32" or not bias
    }
    return build(calls, tmp_path_factory.getbasetemp().parent)


def strides(b, h, rows, columns, heads_inside):
    return (
        (rows * h * columns, columns, h * columns, 1)
        if heads_inside
        else (h * rows * columns, rows * columns, columns, 1)
    )


def check(library, dtype, sizes, causal=False, bias=None, heads_inside=False):
    b, h, s, t, d, w = sizes
    rng = np.random.default_rng(0)
    shapes = {"q": (s, d), "k": (t, d), "v": (t, w), "out": (s, w)}
    params = dict(zip(SIZES, sizes)) | {f"{x}_strides": strides(b, h, *n, heads_inside) for x, n in shapes.items()}
    arrays = [rng.standard_normal(b * h * np.prod(shapes[x])).astype(dtype) for x in "qkv"]
    if bias is not None:
        params["bias_strides"] = (0, 0, t, 1)
        arrays.append(bias.astype(dtype))
    params |= {"scale": 0.3, "causal": causal}
    figures = {k: v for k, v in params.items() if not isinstance(v, tuple)}
    figures |= {f"{k[:-8]}{i}": x for k, v in params.items() if isinstance(v, tuple) for i, x in enumerate(v)}
    out = np.zeros(b * h * s * w, dtype)
    library.run(f"{dtype}_{causal}_{bias is not None}", figures, arrays, [out])
    with np.errstate(invalid="ignore"):
        (expected,) = TEMPLATES["attention"].reference(params, *arrays)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=0, atol=TOLERANCE[dtype] * 4)
    return out


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 3, 17, 17, 8, 8),
        (1, 2, 64, 64, 32, 32),
        (1, 1, 130, 600, 40, 24),
        (1, 2, 600, 300, 16, 70),
        (1, 1, 1, 700, 64, 64),
        (3, 1, 5, 1, 4, 4),
        (0, 2, 4, 4, 4, 4),
        (1, 2, 0, 4, 4, 4),
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
    check(library, "float32", (2, 2, 300, 290, 16, 16), bias=bias)


def test_nothing_seen_and_nan(library):
    """A query whose keys are all masked gives NaN; a NaN reaches its own query only."""
    bias = np.zeros((4, 20))
    bias[1] = -np.inf
    bias[2, 3] = np.nan
    out = check(library, "float32", (1, 1, 4, 20, 8, 8), bias=bias)
    assert np.isnan(out.reshape(4, 8)).all(1).tolist() == [False, True, True, False]
