"""Slices and positions: tables cut to a length, middles, ends, windows, triangles."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.changing.kit import SIZES, entry, mat, vec

POSITIONS = mat(64, 3)
TABLE = vec(64)
EVEN = (4, 6, 8, 12, 10, 4, 16, 2, 6)


@entry(lambda n: (mat(n, 3),))
def learned_positions(t):
    y = t + POSITIONS[:len(t)]
    return y.sum(1)


@entry(lambda n: (mat(n, 3),))
def positions_by_dynamic_slice(t):
    p = lax.dynamic_slice_in_dim(POSITIONS, 0, len(t))
    return t * p


@entry(lambda n: (mat(n, 3), POSITIONS))
def positions_as_an_argument(t, p):
    y = t * 2
    return y + p[:t.shape[0]]


@entry(lambda n: (vec(n),))
def positions_by_take(t):
    p = jnp.take(TABLE, jnp.arange(t.shape[0]))
    return t + p


@entry()
def middle(x):
    n = x.shape[0]
    return x[n // 2] * 2


@entry()
def halves(x):
    n = x.shape[0]
    return x[:n // 2] * 2, x[n // 2:]


@entry()
def ends(x):
    y = x * 3
    return y[0], y[-1], y[1:-1]


@entry()
def differences(x):
    y = x[1:] - x[:-1]
    return y, jnp.diff(x)


@entry()
def every_second(x):
    y = x[::2]
    return y, x[1::2] * 2


@entry()
def reversed_order(x):
    y = x[::-1] + x
    return y


@entry(over=(5, 6, 7, 3, 9, 12))
def last_three(x):
    y = x[-3:]
    return y.mean(), x[x.shape[0] - 3:]


@entry(over=(4, 5, 6, 2, 3, 1, 8))
def first_four(x):
    y = x[:4]
    return y * 2, len(y)


@entry(over=(4, 5, 6, 7, 3, 9))
def dynamic_slice_from_the_end(x):
    n = x.shape[0]
    return lax.dynamic_slice(x, (n - 3,), (2,))


@entry()
def dynamic_index(x):
    n = x.shape[0]
    return lax.dynamic_index_in_dim(x, n - 1, keepdims=False), x[n - 2]


@entry()
def dynamic_update(x):
    n = x.shape[0]
    return lax.dynamic_update_slice(x * 2, jnp.ones(1), (n // 2,))


@entry(lambda n: (mat(n, 1),))
def squeezed(x):
    y = x.squeeze()
    return y * 2


@entry(lambda n: (vec(n)[None],))
def squeezed_first(x):
    y = jnp.squeeze(x, 0)
    return y + x[0]


@entry(lambda n: (vec(n), jnp.asarray(3.0)), frames=2)
def prefix_by_count(x, count):
    y = x * 2
    return y[:int(count)]


@entry(lambda n, k: (vec(n), jnp.asarray(k)), over=((5, 3), (6, 2), (7, 4), (8, 5), (9, 1), (6, 6), (12, 7)), frames=2)
def prefix_by_changing_count(x, count):
    y = x[:int(count)]
    return y * 2


@entry()
def top_two(x):
    values, positions = lax.top_k(x, 2)
    return values, positions


@entry()
def top_half(x):
    values, positions = lax.top_k(x, x.shape[0] // 2)
    return values * 2, positions


@entry(lambda n: (mat(n, n),))
def lower_triangle(x):
    y = jnp.tril(x)
    return y, jnp.triu(x, 1).sum()


@entry(lambda n: (mat(n, n),))
def causal_mask(scores):
    n = scores.shape[0]
    mask = jnp.tril(jnp.ones((n, n), bool))
    return jnp.where(mask, scores, -1e9)


@entry(lambda n: (mat(n, n),))
def upper_entries(x):
    rows, columns = jnp.triu_indices(x.shape[0], 1)
    return x[rows, columns] * 2


@entry(lambda n: (mat(n, n),))
def diagonal(x):
    y = jnp.diagonal(x)
    return y * 2, jnp.trace(x), jnp.diag(y)


@entry()
def padded_blocks(x):
    n = x.shape[0]
    padded = jnp.pad(x, (0, -n % 4))
    return padded.reshape(-1, 4).sum(1)


@entry()
def blocks_of_four(x):
    whole = x.shape[0] // 4 * 4
    return x[:whole].reshape(-1, 4).sum(0), x[whole:].sum()


@entry(over=EVEN)
def pairs(x):
    n = x.shape[0]
    return x.reshape(n // 2, 2)[:, 0] * 2


@entry(over=EVEN)
def split_in_two(x):
    left, right = jnp.split(x, 2)
    return left * right


@entry(lambda n: (mat(2, n),), over=EVEN)
def rotary(x):
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([-right, left], -1)


@entry(lambda n: (mat(n, 4),))
def last_token(x):
    y = x @ jnp.ones((4, 4))
    return y[-1], y[:, -1]


@entry(lambda n: (mat(n, 3),))
def newaxis_and_ellipsis(x):
    y = x[:, None, :] - x[None, :, :]
    return y[..., 0], (y**2).sum(-1)


@entry()
def updated_at_the_end(x):
    n = x.shape[0]
    return x.at[n - 1].set(0.0), x.at[:n // 2].add(1.0)


@entry()
def moving_average(x):
    n = x.shape[0]
    return (x[:n - 2] + x[1:n - 1] + x[2:]) / 3


@entry()
def windows_by_index(x):
    starts = jnp.arange(x.shape[0] - 2)
    return x[starts[:, None] + jnp.arange(3)[None]].mean(1)


@entry()
def windows_by_numpy_index(x):
    starts = np.arange(x.shape[0] - 2)
    return x[starts[:, None] + np.arange(3)[None]].mean(1)


@entry(lambda n: (vec(n), n - 1))
def single_by_number(x, i):
    y = x * 2
    return y[i], x[i - 1]


@entry(lambda n: (vec(n), vec(SIZES[0])), over=(4, 5, 6, 7, 3, 9, 4))
def cut_to_the_shorter(x, y):
    n = min(len(x), len(y))
    return x[:n] * y[:n]


@entry(lambda n: (mat(n, 3),))
def unpacked_rows(x):
    first, *_ = x
    return first * 2, jax.tree.map(jnp.sum, list(x))[0]
