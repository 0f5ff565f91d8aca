"""Arithmetic and elementary functions of complex numbers, on pairs of real arrays.

The inverse trigonometric functions follow Hull, Fairgrieve and Tang (1997), where real part and
imaginary part are both accurate near the branch points; the others are textbook formulas, arranged so
that nothing overflows that the result does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax


class Pair(NamedTuple):
    """A complex array as its two parts."""

    re: Any
    im: Any


def _number(like: Any, value: float) -> Any:
    return lax.full_like(like, value)


def _times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _over_i(z: Pair) -> Pair:
    return Pair(z.im, -z.re)


def _copysign(size: Any, sign: Any) -> Any:
    return jnp.copysign(size, sign)


def _side(size: Any, of: Any) -> Any:
    """`size` on the side of a branch cut that JAX takes: both zeros are above it."""
    return jnp.where(of < 0, -size, size)


# arithmetic -----------------------------------------------------------------------------------------


def mul(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def div(x: Pair, y: Pair) -> Pair:
    """Smith's way: the divisor is scaled by its larger part."""
    wide = lax.abs(y.re) >= lax.abs(y.im)
    big, small = jnp.where(wide, y.re, y.im), jnp.where(wide, y.im, y.re)
    ratio = small / big
    whole = big + small * ratio
    re = jnp.where(wide, x.re + x.im * ratio, x.re * ratio + x.im) / whole
    im = jnp.where(wide, x.im - x.re * ratio, x.im * ratio - x.re) / whole
    return _mend_quotient(x, y, Pair(re, im))


def _mend_quotient(x: Pair, y: Pair, found: Pair) -> Pair:
    """By zero, of or by infinities: C's Annex G."""
    zero = (y.re == 0) & (y.im == 0) & ~(jnp.isnan(x.re) & jnp.isnan(x.im))
    infinity = _copysign(_number(y.re, np.inf), y.re)
    above = jnp.isinf(x.re) | jnp.isinf(x.im)
    below = jnp.isinf(y.re) | jnp.isinf(y.im)
    finite_x, finite_y = jnp.isfinite(x.re) & jnp.isfinite(x.im), jnp.isfinite(y.re) & jnp.isfinite(y.im)
    unit = lambda v: _copysign(jnp.where(jnp.isinf(v), _number(v, 1), _number(v, 0)), v)
    a, b, c, d = unit(x.re), unit(x.im), unit(y.re), unit(y.im)
    inf = _number(x.re, np.inf)
    nan = jnp.isnan(found.re) & jnp.isnan(found.im)

    def pick(value: Any, by_zero: Any, over: Any, under: Any) -> Any:
        value = jnp.where(nan & below & finite_x, under, value)
        value = jnp.where(nan & above & finite_y, over, value)
        return jnp.where(nan & zero, by_zero, value)

    return Pair(
        pick(found.re, infinity * x.re, inf * (a * y.re + b * y.im), 0 * (x.re * c + x.im * d)),
        pick(found.im, infinity * x.im, inf * (b * y.re - a * y.im), 0 * (x.im * c - x.re * d)))


def absolute(z: Pair) -> Any:
    x, y = lax.abs(z.re), lax.abs(z.im)
    big, small = lax.max(x, y), lax.min(x, y)
    ratio = jnp.where(big == small, _number(big, 1), small / big)
    return jnp.where(big == 0, big, big * lax.sqrt(1 + ratio * ratio))


def sign(z: Pair) -> Pair:
    size = absolute(z)
    zero = size == 0
    return Pair(jnp.where(zero, 0 * z.re, z.re / size), jnp.where(zero, 0 * z.im, z.im / size))


def equal(x: Pair, y: Pair) -> Any:
    return (x.re == y.re) & (x.im == y.im)


def unequal(x: Pair, y: Pair) -> Any:
    return (x.re != y.re) | (x.im != y.im)


def _choose(first: Any, x: Pair, y: Pair) -> Pair:
    return Pair(jnp.where(first, x.re, y.re), jnp.where(first, x.im, y.im))


def larger(x: Pair, y: Pair) -> Pair:
    return _choose(jnp.where(x.re == y.re, x.im > y.im, x.re > y.re), x, y)


def smaller(x: Pair, y: Pair) -> Pair:
    return _choose(jnp.where(x.re == y.re, x.im < y.im, x.re < y.re), x, y)


# exponentials and logarithms ------------------------------------------------------------------------


def exp(z: Pair) -> Pair:
    return Pair(_grown(z.re, lax.cos(z.im)), jnp.where(z.im == 0, z.im, _grown(z.re, lax.sin(z.im))))


def _grown(x: Any, by: Any) -> Any:
    """e^x times a number below 1, where e^x may be too large."""
    whole, half = lax.exp(x), lax.exp(x / 2)
    return jnp.where(jnp.isinf(whole), half * by * half, whole * by)


def exp2(z: Pair) -> Pair:
    return exp(mul(Pair(_number(z.re, math.log(2)), jnp.zeros_like(z.re)), z))


def expm1(z: Pair) -> Pair:
    half = lax.sin(z.im / 2)
    re = lax.expm1(z.re) * lax.cos(z.im) - 2 * half * half
    return Pair(re, jnp.where(z.im == 0, z.im, lax.exp(z.re) * lax.sin(z.im)))


def log(z: Pair) -> Pair:
    return Pair(_log_size(z), lax.atan2(z.im, z.re))


def _log_size(z: Pair) -> Any:
    """log|z|; near the unit circle by how far |z|^2 is from 1."""
    x, y = lax.abs(z.re), lax.abs(z.im)
    big, small = lax.max(x, y), lax.min(x, y)
    near = (big > 0.5) & (big < 1.5)
    beyond = jnp.where(near, (big - 1) * (big + 1) + small * small, _number(big, 0))
    return jnp.where(near, lax.log1p(beyond) / 2, lax.log(absolute(z)))


def log1p(z: Pair) -> Pair:
    """The size of 1 + z is 1 + re (2 + re) + im^2, squared, where z is small."""
    near = lax.log1p(z.re * (2 + z.re) + z.im * z.im) / 2
    far = _log_size(Pair(1 + z.re, z.im))
    small = (lax.abs(z.re) < 0.5) & (lax.abs(z.im) < 0.5)
    return Pair(jnp.where(small, near, far), lax.atan2(z.im, 1 + z.re))


def logistic(z: Pair) -> Pair:
    bottom = exp(Pair(-z.re, -z.im))
    one = Pair(jnp.ones_like(z.re), jnp.zeros_like(z.re))
    return div(one, Pair(1 + bottom.re, bottom.im))


def sqrt(z: Pair) -> Pair:
    size = absolute(z)
    root = lax.sqrt(lax.abs(z.re) / 2 + size / 2)
    other = jnp.where(root == 0, root, lax.abs(z.im) / (2 * root))
    right = z.re >= 0
    re, im = jnp.where(right, root, other), jnp.where(right, other, root)
    infinite = jnp.isinf(z.im) & ~jnp.isnan(z.re)
    return Pair(jnp.where(infinite, _number(size, np.inf), re), jnp.where(infinite, z.im, _side(im, z.im)))


def rsqrt(z: Pair) -> Pair:
    size, angle = absolute(z), lax.atan2(z.im, z.re) / -2
    scale, zero = lax.rsqrt(size), jnp.zeros_like(size)
    found = Pair(scale * lax.cos(angle), scale * lax.sin(angle))
    infinite = jnp.isinf(z.re) | jnp.isinf(z.im)
    found = _choose(infinite, Pair(zero, -_copysign(zero, z.im)), found)
    return _choose(size == 0, Pair(_number(size, np.inf), _number(size, np.nan)), found)


def power(x: Pair, y: Pair) -> Pair:
    """|x|^y.re e^(-y.im arg x), turned by y.im log|x| + y.re arg x; zero to a power is zero, or one."""
    size, angle = absolute(x), lax.atan2(x.im, x.re)
    scale = lax.pow(size, y.re) * lax.exp(-y.im * angle)
    turn = y.im * lax.log(size) + y.re * angle
    found = Pair(scale * lax.cos(turn), scale * lax.sin(turn))
    zero, unit = (size == 0) & (y.im == 0), equal(y, Pair(0, 0)) | equal(x, Pair(1, 0))
    one, none = jnp.ones_like(size), jnp.zeros_like(size)
    plain = (x.im == 0) & (y.im == 0) & (x.re == np.inf)
    found = _choose(plain, Pair(lax.pow(x.re, y.re), none), found)
    return _choose(unit, Pair(one, none), _choose(zero & (y.re > 0), Pair(none, none), found))


# trigonometry ---------------------------------------------------------------------------------------


def _cosh_times(x: Any, by: Any) -> Any:
    return jnp.where(lax.abs(x) > 40, _grown(lax.abs(x), by / 2), lax.cosh(x) * by)


def _sinh_times(x: Any, by: Any) -> Any:
    return jnp.where(lax.abs(x) > 40, _grown(lax.abs(x), lax.sign(x) * by / 2), lax.sinh(x) * by)


def sinh(z: Pair) -> Pair:
    return Pair(_sinh_times(z.re, lax.cos(z.im)), jnp.where(z.im == 0, z.im, _cosh_times(z.re, lax.sin(z.im))))


def cosh(z: Pair) -> Pair:
    im = jnp.where(z.im == 0, _number(z.re, 0), _sinh_times(z.re, lax.sin(z.im)))
    return Pair(_cosh_times(z.re, lax.cos(z.im)), im)


def tanh(z: Pair) -> Pair:
    """Far from the axis 1 is all that float arithmetic has of the real part."""
    far = lax.abs(z.re) > 20
    x = jnp.where(far, _number(z.re, 0), z.re)
    sine, cosine = lax.sin(z.im), lax.cos(z.im)
    height = lax.sinh(x)
    below = height * height + cosine * cosine
    tail = 4 * sine * cosine * lax.exp(-2 * lax.abs(z.re))
    end = jnp.isinf(z.re)
    unit = _copysign(_number(x, 1), z.re)
    re = jnp.where(far, unit + jnp.where(end, 0 * x, 0 * cosine), height * lax.cosh(x) / below)
    im = jnp.where(far, jnp.where(end, 0 * x, tail), sine * cosine / below)
    return Pair(re, jnp.where(z.im == 0, z.im, im))


def sin(z: Pair) -> Pair:
    re = jnp.where(z.re == 0, z.re, lax.sin(z.re) * lax.cosh(z.im))
    return Pair(re, lax.cos(z.re) * lax.sinh(z.im))


def cos(z: Pair) -> Pair:
    im = jnp.where(z.re == 0, _number(z.re, 0), lax.sin(z.re) * lax.sinh(z.im))
    return Pair(lax.cos(z.re) * lax.cosh(z.im), -im)


def tan(z: Pair) -> Pair:
    return _over_i(tanh(_times_i(z)))


FAR = 1e10
"""From here on 1 is nothing beside the square of a number."""


def _arc(z: Pair) -> tuple[Any, Any, Any]:
    """Of |re| + i |im|: real part of the arcsine, of the arccosine, size of both imaginary parts. Far away
    these are angles and a logarithm."""
    whole = Pair(lax.abs(z.re), lax.abs(z.im))
    far = lax.max(*whole) > FAR
    x, y = (jnp.where(far, _number(v, 1), v) for v in whole)
    r, s = absolute(Pair(x + 1, y)), absolute(Pair(x - 1, y))
    a = (r + s) / 2
    b = x / a
    inner = (a + x) / 2
    left = lax.sqrt(inner * (y * y / (r + (x + 1)) + (s + (1 - x))))
    right = y * lax.sqrt(inner / (r + (x + 1)) + inner / (s + (x - 1)))
    other = jnp.where(x <= 1, left, right)
    plain = b <= 0.6417
    safe = jnp.where(plain, b, 0 * b)
    arcsine = jnp.where(plain, lax.asin(safe), lax.atan2(x, other))
    arccosine = jnp.where(plain, lax.acos(safe), lax.atan2(other, x))
    over = jnp.where(x < 1, y * y / (s + (1 - x)), s + (x - 1))
    beyond = (y * y / (r + (x + 1)) + over) / 2
    near = a <= 1.5
    close = jnp.where(near, beyond, 0 * beyond)
    tall = lax.log(a + lax.sqrt(a - 1) * lax.sqrt(a + 1))
    height = jnp.where(near, lax.log1p(close + lax.sqrt(close * (a + 1))), tall)
    end = jnp.isinf(z.re) | jnp.isinf(z.im)
    tallest = jnp.where(end, _number(x, np.inf), lax.log(absolute(whole)) + math.log(2))
    return (jnp.where(far, lax.atan2(*whole), arcsine), jnp.where(far, lax.atan2(whole.im, whole.re), arccosine),
            jnp.where(far | end, tallest, height))


def asin(z: Pair) -> Pair:
    arcsine, _, height = _arc(z)
    return Pair(_copysign(arcsine, z.re), _side(height, z.im))


def acos(z: Pair) -> Pair:
    _, arccosine, height = _arc(z)
    turned = jnp.where(jnp.signbit(z.re), math.pi - arccosine, arccosine)
    return Pair(turned, -_side(height, z.im))


def asinh(z: Pair) -> Pair:
    return _over_i(asin(_times_i(z)))


def acosh(z: Pair) -> Pair:
    found = acos(z)
    return Pair(lax.abs(found.im), _side(found.re, z.im))


def atanh(z: Pair) -> Pair:
    end = jnp.isinf(z.re) | jnp.isinf(z.im)
    far = (lax.max(lax.abs(z.re), lax.abs(z.im)) > FAR) | end
    x, y = (jnp.where(far, _number(v, 1), v) for v in (lax.abs(z.re), z.im))
    size = (1 - x) * (1 - x) + y * y
    re, im = lax.log1p(4 * x / size) / 4, lax.atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2
    distant = jnp.where(end, 0 * x, div(Pair(0 * x + 1, 0 * x), z).re)
    quarter = jnp.where(z.im >= 0, _number(y, math.pi / 2), _number(y, -math.pi / 2))
    turned = far | jnp.isnan(z.re) | jnp.isnan(z.im)
    return Pair(_copysign(jnp.where(far, lax.abs(distant), re), z.re), jnp.where(turned, quarter, im))


def atan(z: Pair) -> Pair:
    return _over_i(atanh(_times_i(z)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mul": mul, "div": div, "abs": absolute, "sign": sign, "eq": equal, "ne": unequal, "max": larger, "min": smaller,
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log1p": log1p, "logistic": logistic,
    "sqrt": sqrt, "rsqrt": rsqrt, "pow": power,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": sin, "cos": cos, "tan": tan,
    "asin": asin, "acos": acos, "asinh": asinh, "acosh": acosh, "atanh": atanh, "atan": atan,
}
"""A primitive's name → the function of Pairs that computes it."""
