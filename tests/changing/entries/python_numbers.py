"""Python numbers that decide shapes or values: k of top_k, windows, lengths, classes, loop counts, rates."""

import jax
import jax.numpy as jnp
from jax import lax

from tests.changing.kit import entry, ints, mat, vec

KS = (3, 2, 4, 5, 1, 6, 3, 7)


def long_and(k):
    return vec(9), k


@entry(long_and, KS)
def largest_k(x, k):
    values, positions = lax.top_k(x, k)
    return values, positions


@entry(long_and, KS)
def prefix(x, k):
    y = x * 2
    return y[:k], x[k:]


@entry(long_and, KS)
def suffix(x, k):
    y = x + 1
    return y[-k:]


@entry(long_and, KS)
def zeros_of_k(x, k):
    rows = jnp.zeros((k, 3))
    return rows + x[:3]


@entry(lambda k: (ints(9), k), (5, 6, 7, 8, 9, 10, 5), variants=("break",))
def one_hot_of_k(labels, k):
    y = jax.nn.one_hot(labels, k)
    return y.sum(0)


@entry(long_and, KS)
def arange_of_k(x, k):
    steps = jnp.arange(k) / k
    return steps * x[0]


@entry(long_and, KS)
def linspace_of_k(x, k):
    return jnp.linspace(0.0, 1.0, k) + x[0]


@entry(long_and, KS)
def window_mean(x, k):
    sums = jnp.cumsum(x)
    return (sums[k:] - sums[:-k]) / k


@entry(long_and, KS)
def window_convolution(x, k):
    kernel = jnp.ones(k) / k
    return jnp.convolve(x, kernel, mode="valid")


@entry(long_and, KS)
def scan_of_k_steps(x, k):
    def step(carry, _):
        return carry * 0.5 + 1, carry.sum()
    last, sums = lax.scan(step, x, None, length=k)
    return last, sums


@entry(long_and, KS)
def loop_of_k_steps(x, k):
    for _ in range(k):
        x = x * 0.5 + 1
    return x


@entry(long_and, KS)
def loop_with_its_index(x, k):
    total = jnp.zeros(())
    for i in range(k):
        total = total + x[i] * i
    return total


@entry(long_and, KS)
def fori_of_k_steps(x, k):
    y = lax.fori_loop(0, k, lambda i, c: c * 0.5 + i, x)
    return y


@entry(lambda i: (vec(9), i), (0, 1, 2, 3, 4, 5, 6, 7))
def cache_up_to_now(cache, i):
    seen = cache[:i + 1]
    return jax.nn.softmax(seen), seen.shape[0]


@entry(lambda i: (vec(9), i), (0, 1, 2, 3, 4, 5, 6, 7))
def cache_written_at(cache, i):
    cache = cache.at[i].set(0.5)
    return cache, jnp.where(jnp.arange(9) <= i, cache, 0).sum()


@entry(long_and, KS)
def rolled_by_k(x, k):
    y = jnp.roll(x, k)
    return y - x


@entry(long_and, KS)
def padded_by_k(x, k):
    y = jnp.pad(x, (0, k))
    return y * 2


@entry(long_and, KS)
def tiled_k_times(x, k):
    y = jnp.tile(x[:3], k)
    return y + 1


@entry(long_and, KS)
def repeated_k_times(x, k):
    y = jnp.repeat(x[:3], k)
    return y * 2


@entry(long_and, KS)
def broadcast_to_k(x, k):
    y = jnp.broadcast_to(x, (k, 9))
    return y.sum(0)


@entry(lambda k: (vec(24), k), (2, 3, 4, 6, 8, 12, 2))
def reshaped_to_k_rows(x, k):
    y = x.reshape(k, -1)
    return y.sum(1)


@entry(lambda k: (vec(24), k), (2, 3, 4, 6, 8, 12, 2))
def split_in_k(x, k):
    parts = x.reshape(k, 24 // k)
    return parts.max(1), 24 // k


@entry(lambda k: (mat(4, 24), k), (2, 3, 4, 6, 8, 12, 2))
def heads(x, k):
    q = x.reshape(4, k, 24 // k).transpose(1, 0, 2)
    return q @ q.transpose(0, 2, 1) / (24 // k) ** 0.5


@entry(long_and, KS)
def power_k(x, k):
    y = x**k
    return y, k**2, 1 / k


@entry(long_and, KS)
def scaled_by_k(x, k):
    y = x * k + k // 2
    return y, k % 3


@entry(lambda r: (vec(5), r), (0.1, 0.2, 0.3, 0.05, 1.0, 2.5))
def learning_rate(x, rate):
    grad = jnp.cos(x)
    return x - rate * grad, rate / 2


@entry(lambda s: (vec(5), s), (1, 2, 10, 100, 1000, 3))
def warm_up(x, step):
    rate = 0.1 * min(step / 100, 1.0)
    return x * rate, rate


@entry(lambda s: (vec(5), s), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
def bias_correction(x, t):
    m = 0.1 * x
    return m / (1 - 0.9**t), 1 - 0.999**t


@entry(long_and, KS)
def identity_of_k(x, k):
    y = jnp.eye(k)
    return y * x[0]


@entry(long_and, KS)
def list_of_k(x, k):
    parts = [x * i for i in range(k)]
    return jnp.stack(parts).sum(0)


@entry(lambda n, k: (vec(n), k), ((4, 2), (5, 3), (6, 2), (7, 4), (9, 5), (8, 1), (12, 6)))
def size_and_number(x, k):
    n = x.shape[0]
    return x[:n - k] * k, n - k


@entry(lambda k: (vec(9), k), (3, -1, 0, 12, 2, -4, 9))
def any_slice(x, k):
    y = x[:k]
    return y * 2


@entry(lambda k: (vec(9), k), (3, 0, 2, 0, 5), variants=("break",))
def divided_by(x, k):
    y = x + 1
    return y.sum() * (7 // k)


@entry(lambda k: (vec(6), k), (2, 2.5, True, 3, 4.5, False, 1), captures=6)
def type_changes(x, k):
    y = x * k
    return y, k + 1
