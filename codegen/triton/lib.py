"""Device functions that generated Triton kernels call: what Triton's language has no one word for.

They spell XLA's semantics (see `dynacomp.lowering.kernel_ir.scalars`): integer division by zero, shifts by the
width or more, saturating conversions, NaN that wins a maximum. All are elementwise over blocks, but
for the `combine` functions at the end, which `tl.reduce` and `tl.associative_scan` fold with.

This module needs Triton. `interpret` runs its source a second time in Triton's interpreter.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def floordiv(x, y):
    """Floor division of integers (Triton's `//` truncates); y > 0."""
    quotient = x // y
    return tl.where((x - quotient * y) < 0, quotient - 1, quotient)


@triton.jit
def floormod(x, y):
    """The remainder of `floordiv`, in [0, y)."""
    rest = x - (x // y) * y
    return tl.where(rest < 0, rest + y, rest)


@triton.jit
def div_signed(x, y):
    """x/0 = -1, min/-1 = min, else truncation."""
    plain = (y != 0) & (y != -1)
    quotient = x // tl.where(plain, y, tl.full([], 1, y.dtype))
    return tl.where(plain, quotient, tl.where(y == 0, tl.full([], -1, x.dtype), -x))


@triton.jit
def rem_signed(x, y):
    """x rem 0 = x, x rem -1 = 0, else the sign of x."""
    plain = (y != 0) & (y != -1)
    rest = x % tl.where(plain, y, tl.full([], 1, y.dtype))
    return tl.where(plain, rest, tl.where(y == 0, x, tl.full([], 0, x.dtype)))


@triton.jit
def div_unsigned(x, y, ones: tl.constexpr):
    """x/0 is all ones."""
    quotient = x // tl.where(y == 0, tl.full([], 1, y.dtype), y)
    return tl.where(y == 0, tl.full([], ones, x.dtype), quotient)


@triton.jit
def rem_unsigned(x, y):
    """x rem 0 = x."""
    return tl.where(y == 0, x, x % tl.where(y == 0, tl.full([], 1, y.dtype), y))


@triton.jit
def rem_float(x, y):
    """C's fmod."""
    return libdevice.fmod(x, y)


@triton.jit
def shift_left(x, n, bits: tl.constexpr):
    """0 when n, read as unsigned, is the width or more."""
    inside = (n >= 0) & (n < bits)
    return tl.where(inside, x << tl.where(inside, n, tl.full([], 0, n.dtype)), tl.full([], 0, x.dtype))


@triton.jit
def shift_right(x, n, bits: tl.constexpr):
    """Arithmetic for signed x; a shift by the width or more leaves the sign."""
    inside = (n >= 0) & (n < bits)
    return x >> tl.where(inside, n, tl.full([], bits - 1, n.dtype))


@triton.jit
def shift_right_logical(x, n, bits: tl.constexpr, unsigned: tl.constexpr):
    """Zeros come in from the left, whatever the sign of x."""
    inside = (n >= 0) & (n < bits)
    amount = tl.where(inside, n, tl.full([], 0, n.dtype)).to(unsigned, bitcast=True)
    shifted = (x.to(unsigned, bitcast=True) >> amount).to(x.dtype, bitcast=True)
    return tl.where(inside, shifted, tl.full([], 0, x.dtype))


@triton.jit
def shift_right_sign(x, n, bits: tl.constexpr, signed: tl.constexpr):
    """An arithmetic shift of the bits of an unsigned x."""
    shifted = shift_right(x.to(signed, bitcast=True), n.to(signed, bitcast=True), bits)
    return shifted.to(x.dtype, bitcast=True)


@triton.jit
def population_count(x, unsigned: tl.constexpr):
    """The number of ones, by sideways addition in 64 bits."""
    v = x.to(unsigned, bitcast=True).to(tl.uint64)
    v = v - ((v >> 1) & 0x5555555555555555)
    v = (v & 0x3333333333333333) + ((v >> 2) & 0x3333333333333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0F
    v = v + (v >> 8)
    v = v + (v >> 16)
    v = v + (v >> 32)
    return (v & 0x7F).to(x.dtype)


@triton.jit
def clz(x, bits: tl.constexpr, unsigned: tl.constexpr):
    """Leading zeros: smear the highest one to the right, count the rest."""
    v = x.to(unsigned, bitcast=True).to(tl.uint64)
    v = v | (v >> 1)
    v = v | (v >> 2)
    v = v | (v >> 4)
    v = v | (v >> 8)
    v = v | (v >> 16)
    v = v | (v >> 32)
    return (tl.full([], bits, tl.uint64) - population_count(v, tl.uint64)).to(x.dtype)


@triton.jit
def abs_short(x):
    """Of int16, whose least value is its own: NVIDIA's assembler may take |-32768| for 32768 in what follows, so that
    it is never asked for that."""
    least = tl.full([], -32768, tl.int16)
    return tl.where(x == least, x, tl.abs(tl.maximum(x, tl.full([], -32767, tl.int16))))


@triton.jit
def sign_float(x):
    """-1, 1, or x itself where it is a zero or NaN."""
    one = tl.full([], 1.0, x.dtype)
    return tl.where(x > 0, one, tl.where(x < 0, -one, x))


@triton.jit
def sign_signed(x):
    """-1, 0 or 1."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def round_even(x, big: tl.constexpr):
    """To the nearest integer, ties to even; above `big`, 2 to the mantissa's width, x is whole."""
    a = tl.abs(x)
    whole = (a + big) - big
    return tl.where(a < big, tl.where(x < 0, -whole, tl.where(x == 0, x, whole)), x)


@triton.jit
def is_finite(x):
    """False for NaN and the infinities: their difference with themselves is NaN."""
    return (x - x) == 0


@triton.jit
def to_int(x, dtype: tl.constexpr, low: tl.constexpr, high: tl.constexpr, end: tl.constexpr):
    """Float to integer: truncates, saturates to [low, high], NaN becomes 0.

    `end` is the first float above `high`; -end is `low`, and both are exact in float32.
    """
    inside = (x >= -end) & (x < end)
    whole = tl.where(inside, x, tl.full([], 0, x.dtype)).to(dtype)
    limit = tl.where(x >= end, tl.full([], high, dtype), tl.full([], low, dtype))
    return tl.where(inside, whole, tl.where(x == x, limit, tl.full([], 0, dtype)))


@triton.jit
def to_unsigned(x, dtype: tl.constexpr, high: tl.constexpr, end: tl.constexpr):
    """Float to unsigned integer, as `to_int` with 0 as the lower limit."""
    inside = (x > -1) & (x < end)
    whole = tl.where(inside & (x > 0), x, tl.full([], 0, x.dtype)).to(dtype)
    return tl.where(inside, whole, tl.where(x >= end, tl.full([], high, dtype), tl.full([], 0, dtype)))


@triton.jit
def cbrt(x):
    """The real cube root: a power, then two Newton steps in the argument's precision."""
    a = tl.abs(x)
    usable = (a > 0) & is_finite(a)
    safe = tl.where(usable, a, tl.full([], 1.0, x.dtype))
    y = libdevice.exp(libdevice.log(safe) / 3)
    y = y - (y - safe / (y * y)) / 3
    y = y - (y - safe / (y * y)) / 3
    return tl.where(usable, tl.where(x < 0, -y, y), x)


@triton.jit
def logistic(x):
    """1 / (1 + exp(-x)), without overflow on either side."""
    e = libdevice.exp(-tl.abs(x))
    return tl.where(x >= 0, tl.full([], 1.0, x.dtype), e) / (1 + e)


@triton.jit
def erf_inv(x):
    """Inverse of erf: a logarithmic start, then Halley steps on erfc, in float64."""
    a = tl.abs(x.to(tl.float64))
    inside = a < 1
    tail = tl.where(inside, 1 - a, tl.full([], 1.0, tl.float64))
    w = -libdevice.log(tail * (2 - tail))
    t = 4.330746750799873 + w * -0.5
    y = tl.sqrt(tl.sqrt(t * t + w * 6.802721088435375) - t)
    for _ in range(4):
        f = tl.where(a < 0.5, a - libdevice.erf(y), libdevice.erfc(y) - tail)
        u = f / (1.1283791670955126 * libdevice.exp(-y * y))
        y = y + u / (1 - y * u)
    edge = tl.where(a == 1, tl.full([], float("inf"), tl.float64), tl.full([], float("nan"), tl.float64))
    y = tl.where(inside, y, edge)
    y = tl.where(a == 0, a, y)
    return tl.where(x < 0, -y, tl.where(x == 0, x.to(tl.float64), y)).to(x.dtype)


@triton.jit
def digamma(x):
    """Reflection for x < 0.5, recurrence up to 10, then the asymptotic series, in float64."""
    v = x.to(tl.float64)
    pole = (v <= 0) & (libdevice.floor(v) == v)
    v = tl.where(pole, tl.full([], 1.0, tl.float64), v)
    flip = v < 0.5
    z = tl.where(flip, 1 - v, v)
    total = z * 0
    lost = z * 0
    for _ in range(10):
        low = z < 10
        step = -1 / z - lost
        sum = total + step
        lost = tl.where(low, (sum - total) - step, lost)
        total = tl.where(low, sum, total)
        z = tl.where(low, z + 1, z)
    r = 1 / (z * z)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * 691 / 32760)))))
    value = total + libdevice.log(z) - 0.5 / z - series
    turn = 3.141592653589793 * (v - libdevice.floor(v + 0.5))
    value = tl.where(flip, value - 3.141592653589793 * libdevice.cos(turn) / libdevice.sin(turn), value)
    value = tl.where(v == float("inf"), v, value)
    return tl.where(pole, tl.full([], float("nan"), tl.float64), value).to(x.dtype)


@triton.jit
def combine_sum(x, y):
    return x + y


@triton.jit
def combine_prod(x, y):
    return x * y


@triton.jit
def combine_max(x, y):
    """NaN wins, as in JAX."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def combine_min(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def combine_any(x, y):
    return x | y


@triton.jit
def combine_all(x, y):
    return x & y


@triton.jit
def combine_xor(x, y):
    return x ^ y


@triton.jit
def first_max(x, i, y, j):
    """True where (y, j) comes before (x, i): greater, or NaN, or equal and further left."""
    nan_x = x != x
    nan_y = y != y
    tie = (x == y) | (nan_x & nan_y)
    return ((y > x) & (nan_x == 0)) | (nan_y & (nan_x == 0)) | (tie & (j < i))


@triton.jit
def first_min(x, i, y, j):
    """True where (y, j) comes before (x, i): less, or NaN, or equal and further left."""
    nan_x = x != x
    nan_y = y != y
    tie = (x == y) | (nan_x & nan_y)
    return ((y < x) & (nan_x == 0)) | (nan_y & (nan_x == 0)) | (tie & (j < i))


@triton.jit
def combine_argmax(x, i, y, j):
    take = first_max(x, i, y, j)
    return tl.where(take, y, x), tl.where(take, j, i)


@triton.jit
def combine_argmin(x, i, y, j):
    take = first_min(x, i, y, j)
    return tl.where(take, y, x), tl.where(take, j, i)
