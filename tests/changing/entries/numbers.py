"""Sizes used as numbers: arithmetic, comparison, bits, `math` and NumPy, text, keys, counters."""

import math

import jax.numpy as jnp
import numpy as np

from tests.changing.kit import entry, mat

HOST = ("break",)  # the result has nothing to differentiate


@entry()
def square(x):
    y = x + 1
    return y, x.shape[0] * x.shape[0]


@entry()
def polynomial(x):
    n = len(x)
    return x * (n**3 - 2 * n**2 + n - 7)


@entry()
def half(x):
    n = x.shape[0]
    return x * (n / 2), n / 2


@entry()
def mean_by_hand(x):
    n = x.shape[0]
    return x.sum() * (1 / n)


@entry()
def inverse_root(x):
    n = x.shape[-1]
    return x * n**-0.5, n**-0.5


@entry()
def as_float(x):
    n = float(x.shape[0])
    return x / n, n


@entry()
def root_of_the_size(x):
    scale = math.sqrt(x.shape[0])
    return x / scale, scale


@entry()
def log_of_the_size(x):
    bits = np.log(x.shape[0])
    return x * bits, bits


@entry()
def numpy_scalar(x):
    n = np.float32(x.shape[0])
    return x / n, n


@entry()
def numpy_int(x):
    n = np.int32(x.shape[0])
    return x * n, n * 2


@entry()
def math_functions(x):
    n = x.shape[0]
    return x * math.exp(-n), math.log2(n), math.floor(n / 3), math.ceil(n / 3), math.gcd(n, 12), math.isqrt(n)


@entry()
def quotient_and_rest(x):
    blocks, rest = divmod(x.shape[0], 4)
    return x * blocks + rest, blocks, rest


@entry()
def bits(x):
    n = x.shape[0]
    return x * (n & 3), n | 8, n ^ 5, n << 2, n >> 1, ~n


@entry()
def next_power_of_two(x):
    size = 1 << (x.shape[0] - 1).bit_length()
    return x / size, size


@entry()
def rounded_up(x):
    padded = -(-x.shape[0] // 8) * 8
    return x * padded, padded


@entry(variants=HOST)
def formatted(x):
    n = x.shape[0]
    y = x * 2
    return y, f"{n} items", f"n = {n:d}", f"{n:>4}|{n / 3:.2f}", str(n), repr(n)


@entry(variants=HOST)
def repeated_text(x):
    y = x - 1
    return y, "ab" * x.shape[0], [0] * x.shape[0]


@entry(variants=HOST)
def dictionary_key(x):
    n = x.shape[0]
    seen = {n: x.sum(), "other": 1}
    return seen[n], n in seen, seen


class Meter:
    """Counts what it has seen."""

    def __init__(self):
        self.seen, self.largest, self.sizes = 0, 0, []


@entry(state=Meter, variants=HOST)
def attribute_counter(x, meter):
    meter.seen += x.shape[0]
    y = x * meter.seen
    return y, meter.seen


@entry(state=Meter, variants=HOST)
def largest_so_far(x, meter):
    y = x.sum()
    meter.largest = max(meter.largest, x.shape[0])
    return y, meter.largest


@entry(state=Meter, variants=HOST)
def list_of_sizes(x, meter):
    y = x * 2
    meter.sizes.append(x.shape[0])
    return y, list(meter.sizes)


@entry()
def bit_length(x):
    y = x + 1
    return y * x.shape[0].bit_length(), x.shape[0].bit_length()


@entry()
def size_as_an_array(x):
    n = jnp.asarray(x.shape[0])
    return x / n, n


@entry()
def size_in_where(x):
    return jnp.where(x > 2, x.shape[0], x)


@entry()
def full_of_the_size(x):
    return jnp.full_like(x, x.shape[0]) + x


@entry(lambda n: (mat(n, 3),))
def number_of_elements(x):
    return x / x.size, x.size, x.ndim, x.nbytes


@entry(variants=HOST)
def shape_as_a_value(x):
    y = x[None] + 1
    return y.shape, y.shape + (2,), tuple(reversed(y.shape)), x.shape == (5,)


@entry()
def sign_of_a_difference(x):
    d = x.shape[0] - 6
    return x * abs(d), -d, d > 0, bool(d), int(d)


@entry()
def rounded(x):
    n = x.shape[0]
    return x * round(n / 3), round(n / 7, 2), n.__index__(), int(n * 0.5)


@entry()
def complex_size(x):
    z = x * complex(x.shape[0], 1)
    return z.real, complex(x.shape[0])


@entry()
def numpy_positions(x):
    n = x.shape[0]
    angles = np.arange(n) / n
    return x * np.cos(angles), np.linspace(0.0, 1.0, n)


@entry()
def sum_of_sizes(x):
    return x * sum(range(x.shape[0])), sum(x.shape)
