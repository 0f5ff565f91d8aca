"""Elementary functions of kernels/math.h: ULP against float64 (for float) and mpmath (for double)."""

import ctypes

import mpmath
import numpy as np
import pytest

from dynacomp.codegen.compiler import find, open_library
from dynacomp.lowering.kernel_ir.scalars import SCALARS

# name: the interval that ordinary samples come from (others are added to it)
UNARY = {
    "exp": (-87, 88.5), "exp2": (-125, 127), "expm1": (-20, 88), "log": (1e-30, 1e30), "log1p": (-0.999, 1e6),
    "logistic": (-80, 80), "sin": (-1000, 1000), "cos": (-1000, 1000), "tan": (-10, 10), "asin": (-1, 1),
    "acos": (-1, 1), "atan": (-50, 50), "sinh": (-80, 80), "cosh": (-80, 80), "tanh": (-10, 10),
    "asinh": (-1e4, 1e4), "acosh": (1, 1e4), "atanh": (-0.9999, 0.9999), "erf": (-5, 5), "erfc": (-5, 9),
    "erf_inv": (-0.99999, 0.99999), "lgamma": (0.1, 100), "digamma": (2, 100), "sqrt": (0, 1e10),
    "rsqrt": (1e-10, 1e10), "cbrt": (-1e10, 1e10), "floor": (-1e5, 1e5), "ceil": (-1e5, 1e5),
    "round_even": (-1e5, 1e5), "round_away": (-1e5, 1e5), "sign": (-2, 2), "abs": (-2, 2),
}
IN_DOUBLE = {"lgamma": (-20, 100), "digamma": (-20, 100)}  # where float is computed in double: between zeros, too
BINARY = {"pow": ((0, 30), (-15, 15)), "atan2": ((-10, 10), (-10, 10)), "rem": ((-100, 100), (-7, 7)),
          "nextafter": ((-10, 10), (-10, 10)), "max": ((-2, 2), (-2, 2)), "min": ((-2, 2), (-2, 2))}
MPMATH = {"exp2": lambda x: mpmath.power(2, x), "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
          "rsqrt": lambda x: 1 / mpmath.sqrt(x), "erf_inv": mpmath.erfinv,
          "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
          "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "pow": mpmath.power, "atan2": mpmath.atan2}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30,
           3e38, -3e38, 1e-8, 100.0]
EXACT = ("sign", "abs", "floor", "ceil", "round_even", "round_away")
LIMIT = 4


def source() -> str:
    """Every function over arrays, as lanes with a tail (`_v`) and as scalars (`_s`)."""
    lines = ['#include "math.h"', "namespace dynacomp {"]
    for kind, name in ((k, n) for k in ("float", "double") for n in (*UNARY, *BINARY)):
        two = name in BINARY
        take = f"const {kind}* x, const {kind}* y, {kind}* o, int64_t n"
        lanes = f"kVectorBytes / sizeof({kind})"
        args = "load(x + i, k)" + (", load(y + i, k)" if two else "")
        one = "x[i]" + (", y[i]" if two else "")
        export = 'extern "C" __attribute__((visibility("default"))) void'
        body = f"[&](int64_t i, auto k) {{ store(o + i, {name}({args}), k); }}"
        lines.append(f"{export} {name}_{kind}_v({take}) {{ (void)y;"
                     f" vector_loop<(int)({lanes})>(0, n, {body}); }}")
        lines.append(f"{export} {name}_{kind}_s({take}) {{ (void)y; for (int64_t i = 0; i < n; ++i)"
                     f" o[i] = {name}({one}); }}")
    return "\n".join([*lines, "}"])


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("math") / "math.so"
    find(()).build(source(), out)
    return open_library(out)


def call(library, name, dtype, how, *arrays):
    arrays = [np.ascontiguousarray(a, dtype) for a in arrays]
    out = np.empty_like(arrays[0])
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, *arrays)[:2]]
    kind = {"f4": "float", "f8": "double"}[np.dtype(dtype).str[1:]]
    pointers.append(out.ctypes.data_as(ctypes.c_void_p))
    getattr(library, f"{name}_{kind}_{how}")(*pointers, ctypes.c_int64(out.size))
    return out


def samples(interval, dtype, count):
    low, high = interval
    rng = np.random.default_rng(0)
    spread = rng.uniform(low, high, count)
    near = rng.uniform(max(low, -1), min(high, 1), count // 2) if low < 1 else spread[: count // 2]
    tiny = np.exp(rng.uniform(-60, 0, count // 2)) * (1 if low >= 0 else rng.choice([-1, 1], count // 2))
    tiny = tiny[(tiny >= low) & (tiny <= high)]
    return np.concatenate([spread, near, tiny]).astype(dtype)


def ulps(got, want, dtype):
    """Distance in units of the last place of the exact value, where it is normal."""
    with np.errstate(all="ignore"):
        exact = np.asarray(want, np.longdouble)
        spacing = np.spacing(np.abs(exact.astype(dtype))).astype(np.longdouble)
        normal = (np.abs(exact) >= np.finfo(dtype).tiny) & (np.abs(exact) <= np.finfo(dtype).max)
        return np.where(normal, np.abs(got.astype(np.longdouble) - exact) / spacing, 0)


@pytest.mark.parametrize("how", ["v", "s"])
@pytest.mark.parametrize("name", UNARY)
def test_float_ulp(library, name, how):
    x = samples(IN_DOUBLE.get(name, UNARY[name]), np.float32, 20_000)
    with np.errstate(all="ignore"):
        want = SCALARS[name].reference(x.astype(np.float64))
    error = ulps(call(library, name, np.float32, how, x), want, np.float32)
    assert error.max() <= LIMIT, (name, error.max(), x[error.argmax()])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [n for n in UNARY if n not in EXACT])
def test_double_ulp(library, name):
    x = samples(UNARY[name], np.float64, 150)
    function = MPMATH.get(name) or getattr(mpmath, name, None) or getattr(mpmath, name.replace("psi", ""))
    with mpmath.workdps(40):
        want = [np.longdouble(str(function(mpmath.mpf(float(v))))) for v in x]
    error = ulps(call(library, name, np.float64, "v", x), np.array(want, np.longdouble), np.float64)
    assert error.max() <= LIMIT, (name, error.max(), x[error.argmax()])


ENDS = {
    "erf": lambda t: 10.0 ** (-300 * t), "erfc": lambda t: 6 + 20.5 * t, "erf_inv": lambda t: 1 - 10.0 ** (-16 * t),
    "sinh": lambda t: 710.4 * t, "cosh": lambda t: -710.4 * t, "tan": lambda t: 9e5 * t,
    "atan": lambda t: 10.0 ** (600 * t - 300), "asin": lambda t: 1 - 10.0 ** (-16 * t),
    "acos": lambda t: 10.0 ** (-16 * t) - 1, "asinh": lambda t: 10.0 ** (600 * t - 300),
    "acosh": lambda t: 1 + 10.0 ** (300 * t - 15), "atanh": lambda t: 1 - 10.0 ** (-16 * t)}


@pytest.mark.parametrize("how", ["v", "s"])
@pytest.mark.parametrize("name", ENDS)
def test_double_ulp_where_ranges_end(library, name, how):
    x = ENDS[name](np.random.default_rng(1).random(150))
    function = MPMATH.get(name) or getattr(mpmath, name)
    with mpmath.workdps(45):
        want = [np.longdouble(str(function(mpmath.mpf(float(v))))) for v in x]
    error = ulps(call(library, name, np.float64, how, x), np.array(want, np.longdouble), np.float64)
    assert error.max() <= LIMIT, (name, error.max(), x[error.argmax()])


@pytest.mark.parametrize("name", BINARY)
def test_binary_float(library, name):
    x, y = (samples(interval, np.float32, 10_000)[:10_000] for interval in BINARY[name])
    y = np.random.default_rng(1).permutation(y)
    with np.errstate(all="ignore"):
        wide = (x, y) if name == "nextafter" else (x.astype(np.float64), y.astype(np.float64))
        want = SCALARS[name].reference(*wide)
    error = ulps(call(library, name, np.float32, "v", x, y), want, np.float32)
    assert error.max() <= LIMIT, (name, error.max(), x[error.argmax()], y[error.argmax()])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_special_values(library, name, dtype):
    """NaN, infinities, signed zeros and zeros come out as the reference has them, lanes like scalars."""
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL] if name in BINARY else [(a, a) for a in SPECIAL]
    x, y = (np.array(v, dtype) for v in zip(*pairs))
    with np.errstate(all="ignore"):
        args = (x, y) if name in BINARY else (x,)
        wide = args if name == "nextafter" else [a.astype(np.float64) for a in args]
        want = np.asarray(SCALARS[name].reference(*wide)).astype(dtype)
    for how in "vs":
        got = call(library, name, dtype, how, *args)
        for v, g, w in zip(zip(*args), got, want):
            near = np.isfinite(w) and abs(g - w) <= 1e-5 * abs(w) + 2e-38
            assert (np.isnan(g) and np.isnan(w)) or g == w or near, (name, how, v, g, w)
            if w == 0 and g == 0:
                assert np.signbit(g) == _negative_zero(name, v, w), (name, how, v, g, w)


def _negative_zero(name, v, want):
    """Whether JAX's zero is negative, where NumPy and SciPy leave it open or say otherwise."""
    if name in ("max", "min"):
        return all(map(np.signbit, v)) if name == "max" else any(map(np.signbit, v))
    return np.signbit(v[0]) if name == "erf_inv" else np.signbit(want)
