"""Shapes made of shapes: concatenation, padding, reshapes, tiling, einsum, linear algebra, random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.changing.kit import SIZES, entry, mat, vec, well

TWO = ((4, 3), (5, 3), (6, 2), (7, 5), (3, 9), (9, 4), (6, 6))
SMALL = (3, 4, 5, 6, 2, 7)


def two(n, m):
    return mat(n, m),


def keyed(n):
    return vec(n), jax.random.key(7)


@entry(lambda n: (vec(n), vec(3)))
def joined(x, y):
    z = jnp.concatenate([x, y, x])
    return z * 2, z.shape[0]


@entry(lambda n, m: (vec(n), vec(m)), TWO)
def joined_lengths(x, y):
    z = jnp.concatenate([x, y])
    return z.sum() / z.shape[0], jnp.append(z, 1.0)


@entry()
def stacked(x):
    y = jnp.stack([x, x * 2], 1)
    return y.reshape(-1), jnp.hstack([x, y[0]])


@entry()
def padded_to_sixteen(x):
    y = jnp.pad(x, (0, 16 - x.shape[0]))
    return y * 2


@entry()
def padded_by_its_length(x):
    n = x.shape[0]
    return jnp.pad(x, (n, n // 2), constant_values=1.0)


@entry()
def padded_at_the_edges(x):
    y = jnp.pad(x, 2, mode="edge")
    return y[1:] - y[:-1]


@entry(two, TWO)
def swapped(x):
    y = x.T
    return y.reshape(-1), y.shape


@entry(two, TWO)
def flat(x):
    y = x.reshape(-1)
    return y * y.shape[0], x.ravel()[::2]


@entry(two, TWO)
def reshaped_back(x):
    n, m = x.shape
    y = x.reshape(n * m) / (n * m)
    return y.reshape(m, n)


@entry(lambda n: (mat(n, 6),))
def merged_axes(x):
    y = x.reshape(x.shape[0], 2, 3)
    return y.reshape(x.shape[0] * 2, 3).sum(1)


@entry()
def tiled(x):
    y = jnp.tile(x, 2)
    return y, jnp.tile(x, (3, 1))


@entry()
def repeated(x):
    y = jnp.repeat(x, 2)
    return y * 2, y.shape


@entry()
def outer_product(x):
    y = jnp.outer(x, x)
    return y, x[:, None] + x


@entry()
def mesh(x):
    a, b = jnp.meshgrid(x, jnp.arange(3.0))
    return a * b


@entry()
def identity(x):
    y = jnp.eye(x.shape[0])
    return y * x, y @ x


@entry()
def positions_as_floats(x):
    n = x.shape[0]
    return x * jnp.arange(n) / n, jnp.linspace(0, 1, n) * x


@entry()
def made_of_the_size(x):
    n = x.shape[0]
    return jnp.zeros((n, 2)) + x[:, None], jnp.ones(n + 1), jnp.full((n // 2,), 3.0)


@entry()
def broadcast(x):
    n = x.shape[0]
    return jnp.broadcast_to(x, (3, n)).sum(0), jnp.broadcast_to(x[0], (n, n))


@entry()
def rolled(x):
    y = jnp.roll(x, 1)
    return y - x, jnp.roll(x, x.shape[0] // 2)


@entry(lambda n: (mat(n, 4),))
def einsum(x):
    y = jnp.einsum("ik,jk->ij", x, x)
    return y / x.shape[0]


@entry(lambda n, m: (mat(n, m), mat(m, n)), TWO)
def batched_product(x, y):
    z = jnp.einsum("ij,jk->ik", x, y)
    return z, x @ y


@entry(two, TWO)
def reductions(x):
    return x.mean(0), x.std(1), x.var(), x.max(0), jnp.linalg.norm(x)


@entry(lambda n: (well(n), vec(n)), SMALL)
def solved(a, b):
    x = jnp.linalg.solve(a, b)
    return x * 2


@entry(lambda n: (well(n),), SMALL)
def inverted(a):
    y = jnp.linalg.inv(a)
    return y @ a, jnp.linalg.det(a)


@entry(lambda n: (well(n),), SMALL)
def cholesky(a):
    l = jnp.linalg.cholesky(a @ a.T)
    return l, jnp.log(jnp.diagonal(l)).sum()


@entry(lambda n: (mat(n, 3) / 4,), (4, 5, 6, 7, 3, 9), variants=("break",))
def least_squares(x):
    gram = x.T @ x + jnp.eye(3)
    return jnp.linalg.solve(gram, x.T @ jnp.ones(x.shape[0]))


@entry(lambda n: (well(n),), SMALL, variants=("break",))
def eigenvalues(a):
    w = jnp.linalg.eigvalsh(a + a.T)
    return w / a.shape[0]


@entry(lambda n: (mat(n, 3) / 4,), (4, 5, 6, 7, 3, 9), variants=("break",))
def singular_values(x):
    s = jnp.linalg.svd(x, compute_uv=False)
    return s / s[0]


@entry(lambda n: (well(n), vec(n)), SMALL)
def triangular(a, b):
    y = jax.scipy.linalg.solve_triangular(a, b, lower=True)
    return y


@entry(lambda n: (vec(n) + 0j,), SMALL, variants=("break",))
def fourier(x):
    y = jnp.fft.fft(x)
    return y, jnp.abs(y) / x.shape[0]


@entry(keyed)
def noise(x, key):
    e = jax.random.normal(key, x.shape)
    return x + e


@entry(keyed)
def dropout(x, key):
    keep = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0)


@entry(keyed)
def uniform_of_the_length(x, key):
    n = x.shape[0]
    return x * jax.random.uniform(key, (n,)), jax.random.randint(key, (n,), 0, n)


@entry(keyed, variants=("vmap", "break"), frames=2)
def shuffled(x, key):
    y = jax.random.permutation(key, x)
    return y[:3]


@entry(keyed, variants=("break",))
def keys_of_the_length(x, key):
    keys = jax.random.split(key, x.shape[0])
    return x + jax.vmap(lambda k: jax.random.normal(k, ()))(keys)


@entry(lambda n: (vec(n), jax.random.key(3)), variants=("break",))
def sampled(x, key):
    token = jax.random.categorical(key, x)
    return token, x[token]


@entry(lambda n: (vec(n).astype(jnp.bfloat16),))
def half_precision(x):
    n = x.shape[0]
    return x * n, x.sum() / n, x / float(n)


@entry(lambda n: (np.asarray(vec(n)),), variants=("break",))
def numpy_argument(x):
    y = jnp.asarray(x) * x.shape[0]
    return y, jnp.sum(x) / len(x)


@entry(lambda n: ([vec(n), mat(n, 2)],), variants=("break",))
def list_of_arrays(xs):
    total = sum(x.sum() / x.shape[0] for x in xs)
    return total, [x.shape for x in xs]


@entry(lambda n: ({"a": vec(n), "b": vec(n + 1)},), variants=("break",))
def tree_of_arrays(tree):
    sizes = jax.tree.map(lambda v: v.shape[0], tree)
    return jax.tree.map(lambda v, n: v / n, tree, sizes), sizes


@entry(lambda n: (vec(n),), SIZES, variants=("grad", "break"))
def called_helpers(x):
    def normal(v, count):
        return v / count
    y = normal(x, len(x))
    return lax.add(y, normal(y, y.shape[0] + 1))


@entry()
def added_on_the_diagonal(x):
    return (x[:, None] * x).at[jnp.diag_indices(x.shape[0])].add(0.1)


@entry(over=(4, 5, 6, 7, 3, 9, 12, 8, 16))
def half_by_a_float(x):
    k = int(len(x) * 0.5)
    return x[k:] * 2, x[:k].sum(), k
