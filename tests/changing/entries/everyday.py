"""What programs do with sizes and numbers day by day: buckets, schedules, windows, masks, caches, beams, graphs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.changing.kit import entry, ints, mat, vec

STEPS = (0, 1, 2, 3, 5, 10, 50, 99, 100, 101, 150, 1000)
WINDOWS = ((8, 3), (9, 3), (7, 2), (12, 5), (5, 1), (6, 6), (10, 4), (3, 3))


def at_step(step):
    return vec(4), step


def rows_and(n, k):
    return mat(n, 4), k


def vector_and(n, k):
    return vec(n), k


@entry(at_step, STEPS)
def cyclic_rate(w, step):
    phase = (step % 10) / 10
    triangle = 1 - abs(2 * phase - 1)
    return w * triangle, step // 10


@entry(at_step, STEPS)
def folded_key(w, step):
    key = jax.random.fold_in(jax.random.key(0), step)
    return w + jax.random.normal(key, w.shape)


@entry(vector_and, WINDOWS, captures=4)  # a new size, a new width, and slices of one element, which may broadcast
def sliding_mean(x, w):
    sums = jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)])
    return (sums[w:] - sums[:-w]) / w


@entry(vector_and, WINDOWS)
def sliding_max(x, w):
    y = x + 1
    return lax.reduce_window(y, -jnp.inf, lax.max, (w,), (1,), "VALID")


@entry(rows_and, ((4, 0), (5, 4), (3, 8), (7, 4), (2, 2), (1, 1), (9, 4), (6, 16)))
def rotated_from(x, offset):
    n, d = x.shape
    angles = jnp.arange(offset, offset + n)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


@entry(rows_and, ((4, 0), (5, 4), (3, 8), (7, 4), (2, 2), (1, 1), (9, 4), (6, 16)))
def banded(x, w):
    n = x.shape[0]
    band = jnp.tril(jnp.ones((n, n))) * jnp.triu(jnp.ones((n, n)), -w)
    return jnp.where(band > 0, x @ x.T, 0) / math.sqrt(n)


@entry(rows_and, ((8, 2), (12, 3), (9, 3), (10, 5), (6, 2), (4, 1), (16, 4)))
def chunks_in_a_scan(x, c):
    chunks = x.reshape(x.shape[0] // c, c, 4)
    return lax.scan(lambda total, chunk: (total + chunk.sum(0), total), jnp.zeros(4), chunks)


@entry(lambda n, k: (mat(n, 5), k), ((1, 1), (2, 2), (3, 2), (3, 3), (2, 4), (4, 4), (1, 5)))
def beam(x, k):
    scores = jax.nn.log_softmax(x, -1).reshape(-1)
    values, places = lax.top_k(scores, k)
    return values, places // 5, places % 5


@entry(rows_and, ((8, 2), (9, 5), (7, -3), (12, 1), (5, 5), (6, -2), (4, 9), (3, -9)))
def erased_from(x, k):
    y = x * 2
    return y.at[k:].set(0.0)


@entry(lambda n, a, b: (vec(n), a, b), ((8, 2, 5), (9, 0, 9), (7, -3, 6), (12, 1, 4), (5, -3, 5), (6, 2, -1)))
def cut_between(x, a, b):
    y = x + 1
    return y[a:b] * 2


@entry(lambda n, e: (mat(n, 3), ints(e), ints(e)[::-1]), ((5, 4), (6, 7), (5, 12), (9, 1), (7, 3), (5, 9)))
def messages(x, senders, receivers):
    n = x.shape[0]
    degree = jnp.zeros(n).at[receivers].add(1)
    return x + jax.ops.segment_sum(x[senders], receivers, n) / jnp.maximum(degree, 1)[:, None]
