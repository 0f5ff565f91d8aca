"""Complex functions on pairs of floats: everywhere as eager JAX's, and near their branch points as float64's."""

import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.primitives.complex_functions import FUNCTIONS, Pair, absolute, div
from tests.lowering.closed import same_as_eager

DRAWN = np.random.RandomState(0)
Z, W = ((DRAWN.randn(4, 6) + 1j * DRAWN.randn(4, 6)).astype(np.complex64) for _ in range(2))
PARTS = np.float32([0, 1e-3, 0.3, -0.7, 1, -1, 2.5, -40, 90, 1e10, np.inf, -np.inf, np.nan])
OF_TWO = ("mul", "div", "max", "min", "eq", "ne", "pow")
NUMPYS = {"asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
          "atan": "arctan"} | {name: name for name in ("log", "log1p", "sqrt", "exp", "expm1", "tanh")}


def grid():
    re, im = map(np.ravel, np.meshgrid(PARTS, PARTS))
    z = np.empty(re.shape, np.complex64)
    z.real, z.imag = re, im
    return z


def pair(z):
    return Pair(np.float32(z.real), np.float32(z.imag))


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS).difference(OF_TWO)))
def test_functions_everywhere(name):
    same_as_eager(getattr(lax, name), grid(), scale=4)


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two(name):
    function = getattr(lax, name)
    same_as_eager(function, Z, W, scale=4)
    if name != "pow":
        z = DRAWN.choice(grid(), 3000)
        same_as_eager(function, z, z[::-1], scale=4)


@pytest.mark.parametrize("name", NUMPYS)
def test_parts_are_accurate_near_branch_points(name):
    """Within few ULPs of the size of the result in float64, at distances from 1e-6 of 1, -1, i, -i and 0. (The
    logarithm's real part near the unit circle was the logarithm of a rounded size.)"""
    far = np.float32(10.0 ** np.arange(-6, 1))
    turned = np.exp(1j * np.pi * (np.arange(12) + 0.5) / 6)
    points = (np.array([1, -1, 1j, -1j, 0])[:, None, None] + far[:, None] * turned).ravel().astype(np.complex64)
    want = getattr(np, NUMPYS[name])(points.astype(np.complex128))
    got = FUNCTIONS[name](pair(points))
    assert (np.abs(got.re - want.real) <= 4e-7 * np.maximum(np.abs(want), 1e-6)).all()
    assert (np.abs(got.im - want.imag) <= 4e-7 * np.maximum(np.abs(want), 1e-6)).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_what_the_result_can_hold_does_not_overflow_on_the_way(scale):
    z = (Z * np.float32(scale)).astype(np.complex64)
    np.testing.assert_allclose(absolute(pair(z)), np.abs(z.astype(np.complex128)), rtol=1e-6)
    quotient = div(pair(z), pair((W * np.float32(scale)).astype(np.complex64)))
    np.testing.assert_allclose(quotient.re + 1j * quotient.im, Z / W, rtol=1e-5)
