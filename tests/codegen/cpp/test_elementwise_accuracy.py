"""Elementwise functions over the whole range of float32, against float64: no error over twice eager JAX's.

Points are spread over all magnitudes, and denser where functions turn; neighbours make a stretch, and within each the
largest error counts, in units of the last place of the exact result. What the contract promises is no error. Where
eager JAX gives NaN, infinity or a number, so does the compiled function.
"""

import functools

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax, nn

import dynacomp

OPTIONS = {"fast": {}, "exact": {"numerics": "exact"}}
PROMISED = 4.0
STRETCHES = 64
FUNCTIONS = {
    **{name: getattr(jnp, name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
        "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sqrt", "cbrt", "square", "reciprocal", "rint",
        "floor", "ceil", "trunc", "sign", "abs", "sinc", "i0", "deg2rad", "rad2deg", "nan_to_num")},
    **{name: getattr(nn, name) for name in (
        "relu6", "sigmoid", "softplus", "silu", "gelu", "elu", "celu", "selu", "leaky_relu", "mish", "log_sigmoid",
        "soft_sign", "hard_sigmoid", "hard_silu", "sparse_plus", "log1mexp")},
    **{name: getattr(special, name) for name in (
        "erf", "erfc", "erfinv", "gammaln", "gamma", "digamma", "i0e", "i1", "i1e", "entr", "ndtr", "log_ndtr", "ndtri",
        "logit", "spence")},
    "gelu by erf": functools.partial(nn.gelu, approximate=False), "rsqrt": lax.rsqrt, "logistic": lax.logistic,
    "cube": lambda x: lax.integer_pow(x, 3), "seventh power": lambda x: x ** 7, "power 1.7": lambda x: x ** 1.7,
    "power of 1.1": lambda x: 1.1 ** x, "arctan2": lambda x: jnp.arctan2(x, 1.5), "hypot": lambda x: jnp.hypot(x, 2.5),
    "remainder": lambda x: jnp.remainder(x, 1.3), "fmod": lambda x: jnp.fmod(x, 1.3),
    "xlogy": lambda x: special.xlogy(3.0, x),
    "logaddexp": lambda x: jnp.logaddexp(x, 1.0), "quotient": lambda x: 3.0 / x,
    "igamma": lambda x: special.gammainc(2.5, x),
}
GROUPS = [list(FUNCTIONS)[i:i + 9] for i in range(0, len(FUNCTIONS), 9)]
QUICK = ("exp", "log1p", "tanh", "sin", "erf", "gelu", "log_sigmoid", "power 1.7")


def points():
    positive = np.concatenate([np.logspace(-37, 37, 1200), np.linspace(1e-3, 30, 1200), np.linspace(0, 1, 800)[1:],
                               1 + np.logspace(-7, -1, 300), 1 - np.logspace(-7, -1, 300)])
    return np.unique(np.concatenate([-positive, [0.0], positive]).astype(np.float32))


def exact_results(fn, x):
    with jax.enable_x64(True):
        return np.asarray(fn(jnp.asarray(x.astype(np.float64))))


def places(got, want):
    """How many last places `got` is off, where the exact result is a number of float32; 0 elsewhere."""
    near = want.astype(np.float32)
    place = np.spacing(np.maximum(np.abs(near), np.float32(2.0 ** -126))).astype(np.float64)
    return np.where(np.isfinite(near) & np.isfinite(got), np.abs(got.astype(np.float64) - want) / place, 0.0)


def worst(got, eager, want):
    """The stretch where the error is furthest over what is allowed: ours, eager's, where; None where none is."""
    ours, theirs = places(got, want), places(eager, want)
    found = []
    for part in np.array_split(np.arange(len(want)), STRETCHES):
        error, allowed = ours[part].max(), max(2 * theirs[part].max(), PROMISED)
        if error > allowed:
            found.append((error / allowed, error, theirs[part].max(), part[ours[part].argmax()]))
    return max(found, default=None)


def kind(x):
    """0 of a number, else what it is."""
    return np.where(np.isnan(x), 2, np.where(np.isinf(x), np.sign(x), 0))


def check(names, mode):
    dynacomp.reset()
    x = points()
    found = dynacomp.jit(lambda a: {n: FUNCTIONS[n](a) for n in names}, options=OPTIONS[mode])(jnp.asarray(x))
    wrong = {}
    with np.errstate(all="ignore"):
        for name in names:
            got, eager = np.asarray(found[name]), np.asarray(FUNCTIONS[name](jnp.asarray(x)))
            over = worst(got, eager, exact_results(FUNCTIONS[name], x))
            if over:
                wrong[name] = f"{over[1]:.3g} places, eager {over[2]:.3g}, at {x[over[3]]!r}: {got[over[3]]!r}"
            other = kind(got) != kind(eager)
            if other.any():
                wrong[f"{name}: special"] = f"{other.sum()} at {x[other][:3]}: {got[other][:3]} for {eager[other][:3]}"
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    stats = dynacomp.stats()
    assert set(stats["regions"]) == {"cpp"} and not stats["externs"] and not stats["breaks"]


@pytest.mark.parametrize("mode", OPTIONS)
def test_a_sample(mode):
    check(QUICK, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_function(group, mode):
    check(GROUPS[group], mode)


@pytest.mark.parametrize("by", [255.0, -0.7, 3.0, 1e-20])
def test_division_by_a_constant_rounds_once(by):
    """What it keeps: the nearest number, zeros and their signs, infinities, NaN; bytes over 255 reach 1."""
    made = np.random.RandomState(0)
    x = np.float32(np.concatenate([made.randn(5000), np.arange(256), [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38]]))
    found = np.asarray(dynacomp.jit(lambda x: x / by)(jnp.asarray(x)))
    with np.errstate(over="ignore"):
        wanted = x / np.float32(by)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(x)], np.signbit(wanted)[~np.isnan(x)])
