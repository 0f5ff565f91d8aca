"""Sorting, searching, gathering and scattering over changing lengths."""

import jax
import jax.numpy as jnp
from jax import lax

from tests.changing.kit import entry, ints, mat, vec

HOST = ("vmap", "break")


@entry()
def in_order(x):
    y = jnp.sort(x)
    return y, y[0]


@entry()
def order(x):
    p = jnp.argsort(-x)
    return x[p], p


@entry(lambda n: (vec(n), ints(n)))
def sorted_by_key(x, keys):
    _, y = lax.sort_key_val(keys, x)
    return y * 2


@entry(lambda n: (mat(n, 3),))
def sorted_columns(x):
    y = jnp.sort(x, axis=0)
    return y, jnp.argmax(x, 0)


@entry()
def median(x):
    m = jnp.median(x)
    return x - m, jnp.quantile(x, 0.25)


@entry(variants=HOST, frames=3)
def searched(x):
    edges = jnp.sort(x)
    return jnp.searchsorted(edges, jnp.asarray([1.5, 2.5])), jnp.digitize(x, edges)


@entry()
def ranked(x):
    ranks = jnp.argsort(jnp.argsort(x))
    return ranks / x.shape[0], x * ranks


@entry()
def best_and_worst(x):
    return x[jnp.argmax(x)] - x[jnp.argmin(x)], jnp.argmax(x), x.max()


@entry(lambda n: (vec(n), ints(n)))
def gathered(x, positions):
    y = x[positions % x.shape[0]]
    return y * 2


@entry(lambda n: (mat(n, 3), ints(n) % 3))
def along_axis(x, columns):
    y = jnp.take_along_axis(x, columns[:, None], 1)
    return y[:, 0]


@entry(lambda n: (vec(n), ints(n)))
def segments(x, ids):
    y = jax.ops.segment_sum(x, ids, num_segments=5)
    return y


@entry(lambda n: (vec(n), ints(n)))
def segments_of_the_length(x, ids):
    y = jax.ops.segment_sum(x, ids, num_segments=x.shape[0])
    return y


@entry(lambda n: (vec(n), ints(n)))
def scattered(x, positions):
    y = jnp.zeros(5).at[positions].add(x)
    return y, jnp.zeros_like(x).at[positions % x.shape[0]].max(x)


@entry(lambda n: (vec(n), ints(n)))
def messages(x, senders):
    n = x.shape[0]
    receivers = jnp.arange(n)[::-1]
    return jnp.zeros(n).at[receivers].add(x[senders % n])


@entry(lambda n: (ints(n),), variants=("break",))
def counts(x):
    y = jnp.bincount(x, length=5)
    return y / x.shape[0]


@entry()
def running(x):
    y = jnp.cumsum(x)
    return y / jnp.arange(1, x.shape[0] + 1), jnp.cumprod(x / 4)


@entry(variants=HOST)
def histogram(x):
    y, edges = jnp.histogram(x, bins=4, range=(0.0, 6.0))
    return y, edges


@entry(lambda n: (vec(n), jnp.linspace(0.0, 1.0, n)), frames=2)
def interpolated(values, points):
    y = jnp.interp(jnp.asarray([0.1, 0.7]), points, values)
    return y


@entry(lambda n: (vec(n), ints(n) > 1))
def masked_mean(x, mask):
    total = jnp.where(mask, x, 0).sum()
    return total / jnp.maximum(mask.sum(), 1), (~mask).any()


@entry(lambda n: (vec(n), ints(n) > 1), frames=3)
def boolean_mask(x, mask):
    y = x[mask]
    return y * 2, y.shape[0]


@entry(lambda n: (vec(n),), variants=("grad", "break"), frames=3)
def positions_that_hold(x):
    rows, = jnp.nonzero(x > 2.5)
    return x[rows].sum(), len(rows)


@entry(lambda n: (ints(n),), variants=("break",), frames=3)
def distinct(x):
    values, times = jnp.unique(x, return_counts=True)
    return values * 2, times / times.sum()


@entry(lambda n: (vec(n),), variants=("grad", "break"), frames=3)
def selected_then_padded(x):
    good = x[x > 2]
    y = jnp.pad(good, (0, x.shape[0] - good.shape[0]))
    return y * 2


@entry(lambda n: (vec(n),), variants=("grad", "break"), frames=3)
def where_of_one_argument(x):
    rows = jnp.where(x > 2)[0]
    return jnp.exp(-x[rows])


@entry(lambda n: (vec(n),))
def nonzero_of_a_size(x):
    rows, = jnp.nonzero(x > 2.5, size=3, fill_value=0)
    return x[rows] * 2


@entry(lambda n: (vec(n),))
def nonzero_of_the_length(x):
    rows, = jnp.nonzero(x > 2.5, size=x.shape[0], fill_value=0)
    return x[rows] * 2
