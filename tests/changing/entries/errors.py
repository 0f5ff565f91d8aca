"""Errors that changing shapes make: raised, caught, turned into values."""

import jax
import jax.numpy as jnp
from jax import lax

from tests.changing.kit import entry, mat, vec

NONE = ("break",)
TWO = ((4, 4), (5, 4), (6, 6), (7, 7), (3, 6), (9, 9), (8, 3), (4, 5), (12, 12), (6, 8))


def two(n, m):
    return vec(n), vec(m)


@entry(two, TWO, variants=NONE, frames=2)
def added(x, y):
    z = x + y
    return z * 2


@entry(two, TWO, variants=NONE, frames=3)
def addition_caught(x, y):
    try:
        return x + y
    except TypeError:
        return x.sum() + y.sum()


@entry(two, TWO, variants=NONE, frames=3)
def message_caught(x, y):
    try:
        z = x * y
    except (TypeError, ValueError) as error:
        return str(error)
    return z


@entry(lambda n, m: (mat(n, 3), mat(m, 2)), ((3, 3), (4, 3), (5, 3), (6, 4), (7, 3), (8, 5), (3, 3)), variants=NONE,
       frames=2)
def product_that_does_not_fit(x, y):
    z = x @ y
    return z


@entry(two, TWO, variants=NONE, frames=2)
def checked_by_hand(x, y):
    if x.shape != y.shape:
        raise ValueError(f"shapes {x.shape} and {y.shape} differ")
    return x - y


@entry(two, TWO, variants=NONE, frames=3)
def concatenation_caught(x, y):
    try:
        return jnp.concatenate([x[None], y[None]])
    except TypeError:
        return jnp.zeros(2)


@entry(over=(4, 6, 5, 8, 7, 10, 9, 12), variants=NONE, frames=2)
def reshape_that_may_fail(x):
    y = x.reshape(-1, 2)
    return y.sum(1)


@entry(over=(4, 6, 5, 8, 7, 10, 9, 12), variants=NONE, frames=3)
def reshape_caught(x):
    try:
        y = x.reshape(-1, 2)
    except TypeError:
        y = jnp.append(x, 0.0).reshape(-1, 2)
    return y.sum(1)


@entry(over=(4, 6, 2, 8, 3, 10, 1, 12), variants=NONE, frames=2)
def top_k_that_may_fail(x):
    values, _ = lax.top_k(x, 4)
    return values


@entry(over=(4, 6, 2, 8, 3, 10, 1, 12), variants=NONE, captures=6)
def index_error_of_a_list(x):
    names = ["a", "b", "c", "d", "e", "f", "g"]
    y = x * 2
    return y, names[x.shape[0] - 1]


@entry(over=(4, 6, 2, 8, 3, 10, 4), variants=NONE)
def key_error(x):
    scales = {4: 1.0, 6: 2.0, 8: 3.0}
    return x * scales[x.shape[0]]


@entry(over=(4, 6, 2, 8, 3, 10, 4), variants=NONE, captures=5, frames=2)
def default_of_a_key(x):
    scales = {4: 1.0, 6: 2.0, 8: 3.0}
    return x * scales.get(x.shape[0], 0.5)


@entry(over=(4, 5, 6, 7, 3, 9), variants=NONE)
def split_that_may_fail(x):
    parts = jnp.split(x, 2)
    return parts[0] + parts[1]


@entry(over=(4, 3, 6, 7, 3, 9), variants=NONE)
def unpacked_sizes(x):
    a, b, c = x[:3] * 2
    return a + b * c


@entry(lambda n: (mat(n, 3),), over=(4, 3, 6, 7, 3, 9, 5), variants=NONE)
def matrix_that_must_be_square(x):
    y = x * 2
    return jnp.linalg.det(y)


@entry(lambda n: (vec(n), mat(n, 2)), over=(4, 5, 6, 7, 2, 9), variants=NONE, frames=2)
def gradient_of_a_vector(x, w):
    def loss(x):
        return (x @ w) if x.shape[0] == 6 else (x @ w).sum()
    return jax.grad(loss)(x)
