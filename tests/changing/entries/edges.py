"""Sizes 0 and 1, sizes that are marked or forbidden to be symbolic, and `dynamic=`."""

import jax.numpy as jnp

import dynacomp
from tests.changing.kit import entry, mat, vec

ZERO = (4, 0, 5, 6, 0, 7)
ONE = (4, 1, 5, 6, 1, 7)
BOTH = (4, 5, 1, 0, 6, 1, 0, 7)
FROM_ONE = (1, 2, 3, 4, 1, 5, 6)


def marked(n):
    x = vec(n)
    dynacomp.mark_dynamic(x, 0)
    return x,


def bounded(n):
    x = vec(n)
    dynacomp.mark_dynamic(x, 0, min=2, max=16)
    return x,


def fixed(n):
    x = vec(n)
    dynacomp.mark_static(x, 0)
    return x,


@entry(over=ZERO)
def sometimes_empty(x):
    y = x * 2
    return y.sum(), y, x.shape[0]


@entry(over=ONE)
def sometimes_one(x):
    y = x * 2
    return y.sum() / x.shape[0], y


@entry(over=BOTH, captures=4)
def empty_or_one(x):
    y = x * 2
    return jnp.concatenate([y, x]), y.sum()


@entry(over=FROM_ONE)
def one_at_first(x):
    y = x + x.shape[0]
    return y * 2


@entry(lambda n, m: (mat(n, m), vec(m)), ((4, 3), (5, 2), (1, 3), (6, 4), (1, 4), (7, 3)))
def batch_of_one(x, y):
    z = x * y
    return z.sum(1), z.shape


@entry(lambda n, m: (vec(n), vec(m)), ((4, 4), (5, 1), (6, 6), (7, 1), (8, 8), (9, 1)))
def broadcasts_sometimes(x, y):
    z = x + y
    return z * 2


@entry(lambda n: (mat(n, 3),), ZERO)
def mean_of_nothing(x):
    y = x.mean(0)
    return y, x.sum(1)


@entry(over=(4, 0, 5, 1, 6), variants=("break",), captures=4)
def maximum_of_nothing(x):
    y = x + 1
    return y.max()


@entry(over=ZERO, variants=("break",))
def division_by_the_size(x):
    y = x.sum()
    return y + 1 / x.shape[0]


@entry(lambda n: (mat(n, 3),), BOTH, captures=4)
def rows_times_matrix(x):
    y = x @ jnp.ones((3, 2))
    return y, x.T @ x


@entry(marked, captures=2)
def marked_dynamic(x):
    y = x * x.shape[0]
    return y, x[:2]


@entry(bounded, captures=2)
def marked_with_bounds(x):
    if x.shape[0] > 20:
        return x
    return x * 2, x.shape[0] + 1


@entry(bounded, over=(4, 5, 6, 3, 16, 2, 9, 8), captures=2)
def cut_within_the_bounds(x):
    table = jnp.arange(16.0)
    return x + table[:x.shape[0]]


@entry(fixed, over=(4, 5, 6, 7, 4, 5), captures=4, variants=("break",))
def marked_static(x):
    y = x * x.shape[0]
    return y.reshape(2, -1) if x.shape[0] % 2 == 0 else y


@entry(lambda n, m: (mat(n, m),), ((4, 3), (5, 3), (6, 2), (7, 5), (3, 9), (9, 4)), captures=2, dynamic=True)
def dynamic_from_the_start(x):
    y = x.T @ x / x.shape[0]
    return y[0], x.size


@entry(captures=2, dynamic=True)
def dynamic_slices(x):
    table = jnp.arange(64.0)
    return x + table[:len(x)], x[len(x) // 2]


@entry(lambda n, k: (vec(n), k), ((4, 2), (5, 3), (6, 1), (7, 4), (8, 5)), dynamic=True)
def dynamic_number(x, k):
    y = x * k
    return y[:k], k + 1


@entry(over=(4, 5, 6, 7, 4, 5), captures=4, dynamic=False)
def never_dynamic(x):
    y = x * x.shape[0]
    return y, x[::2]
