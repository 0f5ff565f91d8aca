"""Sizes that decide: comparisons, divisors and shifts that may be zero or negative, numbers that no longer fit."""

import math

import jax.numpy as jnp

from tests.changing.kit import entry, mat, vec

HOST = ("break",)  # the result has nothing to differentiate
NEAR_FIVE = (8, 7, 9, 6, 4, 5, 3, 10, 5)


@entry()
def condition_on_square(x):
    n = x.shape[0]
    if n * n > 30:
        return x * 2
    return x - 1


@entry(captures=4)
def condition_on_range(x):
    n = x.shape[0]
    y = jnp.sin(x)
    return y if 4 <= n < 9 else -y


@entry()
def conditional_scale(x):
    scale = 0.5 if x.shape[0] % 2 == 0 else 2.0
    return x * scale


@entry()
def clamped(x):
    n = min(x.shape[0], 6)
    return x * n, max(x.shape[0], 6), n


@entry(over=NEAR_FIVE)
def rest_by_a_difference(x):
    total = x.sum()
    return total * (10 % (x.shape[0] - 5))


@entry(over=NEAR_FIVE)
def quotient_by_a_difference(x):
    total = x.sum()
    return total * (10 // (x.shape[0] - 5))


@entry(over=NEAR_FIVE)
def division_by_a_difference(x):
    total = x.sum()
    return total * (1 / (x.shape[0] - 5))


@entry(over=NEAR_FIVE, variants=HOST)
def steps_of_a_range(x):
    y = x + 1
    return y, list(range(0, 9, x.shape[0] - 5))


@entry(over=(5, 6, 4, 7, 3), variants=HOST)
def logarithm_of_a_difference(x):
    y = x + 1
    return y * math.log(x.shape[0] - 4)


@entry(over=(4, 5, 6, 7, 3), variants=HOST)
def negative_shift(x):
    y = x + 1
    return y * (1 << (x.shape[0] - 4))


@entry(lambda n: (jnp.arange(n),), over=(4, 8, 16, 40000, 50000, 7, 42949, 42950, 60000), variants=HOST, frames=2)
def overflows_an_int32(x):
    first = x[0] + x.shape[0] * 50000
    return first


@entry(over=(2, 3, 200, 3000, 2147, 2148, 5), variants=HOST, frames=2)
def overflows_in_a_sum(x):
    n = x.shape[0]
    return jnp.arange(3) + n * 1000000


@entry(over=(4, 5, 200, 255, 256, 300, 6), variants=HOST, frames=2)
def overflows_a_byte(x):
    y = x + 1
    return y, jnp.asarray(x.shape[0], jnp.uint8)


@entry(lambda n: (jnp.arange(n),), over=(4, 5, 30, 31, 32, 33, 6), variants=HOST)
def shifted_one(x):
    return x * (1 << x.shape[0])


@entry(over=(4, 5, 6, 7, 40, 9), variants=HOST)
def large_power(x):
    return x * 10.0 ** x.shape[0], 2 ** x.shape[0]


@entry(lambda n, m: (vec(n), vec(m)), over=((4, 6), (5, 5), (6, 4), (7, 7), (3, 9), (9, 3), (8, 12), (12, 12)))
def compared_sizes(x, y):
    if x.shape[0] < y.shape[0]:
        return x.sum() + y.shape[0] - x.shape[0]
    return y.sum()


@entry(lambda n, m: (vec(n), vec(m)), over=((4, 4), (5, 5), (6, 6), (5, 7), (7, 5), (3, 3), (8, 9)))
def equal_by_chance(x, y):
    return x * 2, y * 3, x.shape == y.shape


@entry(lambda n, m: (vec(n), vec(m)), over=((4, 4), (5, 5), (6, 6), (5, 7), (7, 5), (3, 3), (8, 9)))
def equal_by_chance_and_never_asked(x, y):
    return x.sum() * 2 + y.sum()


@entry(lambda n, m: (mat(n, m),), over=((4, 4), (5, 5), (6, 6), (5, 7), (7, 5), (3, 3), (8, 9)))
def square_by_chance(x):
    return x.T @ x, x.sum(0)


@entry(over=(4, 5, 6, 7, 3))
def assertion(x):
    assert x.shape[0] != 7, f"seven is {x.shape[0]}"
    return x + 1


@entry(over=(4, 5, 6, 7, 3, 9), variants=HOST)
def raises_with_the_size(x):
    y = x + 1
    if x.shape[0] % 3 == 0:
        raise ValueError(f"{x.shape[0]} is a multiple of three")
    return y
