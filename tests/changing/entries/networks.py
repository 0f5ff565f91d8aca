"""Parts of neural networks over changing lengths and batches: layers, attention, convolution, pooling, losses."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.changing.kit import entry, ints, mat, vec

W = mat(4, 4) / 8
IMAGES = (2, 3, 4, 5, 1, 6, 3)
SIDES = (5, 6, 7, 8, 9, 6, 10)


def image(n):
    return mat(n, 36).reshape(n, 6, 6, 1) / 8,


def side(n):
    return mat(2, n * n).reshape(2, n, n, 1) / 8,


@entry(lambda n: (mat(n, 4),))
def dense(x):
    h = jnp.tanh(x @ W)
    return h @ W + 1


@entry(lambda n: (mat(n, 4),))
def layer_norm(x):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5)


@entry(lambda n: (mat(n, 4),), over=(4, 5, 6, 7, 3, 9))
def batch_norm(x):
    mean, var = x.mean(0), x.var(0)
    unbiased = var * (x.shape[0] / (x.shape[0] - 1))
    return (x - mean) / jnp.sqrt(var + 1e-3), unbiased


@entry(lambda n: (mat(n, 4),))
def softmax_rows(x):
    y = jax.nn.softmax(x, axis=0)
    return y, jax.nn.logsumexp(x)


@entry(lambda n: (mat(n, 4),))
def self_attention(x):
    q, k, v = x @ W, x @ W.T, x
    scores = q @ k.T / x.shape[-1] ** 0.5
    return jax.nn.softmax(scores) @ v


@entry(lambda n: (mat(n, 4) / 8,))
def causal_attention(x):
    n = x.shape[0]
    scores = x @ W @ x.T
    mask = jnp.arange(n)[:, None] >= jnp.arange(n)[None]
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ x


@entry(lambda n: (mat(n, 4) / 8, jnp.asarray(3)))
def attention_with_a_length(x, length):
    scores = x @ x.T
    mask = jnp.arange(x.shape[0]) < length
    return jax.nn.softmax(jnp.where(mask[None], scores, -1e9)) @ x


@entry(lambda n: (mat(n, 8) / 8,))
def two_heads(x):
    n = x.shape[0]
    heads = x.reshape(n, 2, 4).transpose(1, 0, 2)
    y = jax.nn.softmax(heads @ heads.transpose(0, 2, 1) / 2) @ heads
    return y.transpose(1, 0, 2).reshape(n, 8)


@entry(lambda n: (mat(n, 8).reshape(1, n, 2, 4) / 8,), over=(4, 5, 6, 7, 3, 9))
def library_attention(x):
    y = jax.nn.dot_product_attention(x, x, x, is_causal=True)
    return y


@entry(lambda n: (mat(n, 4) / 8,))
def alibi(x):
    n = x.shape[0]
    distance = jnp.arange(n)[None] - jnp.arange(n)[:, None]
    return jax.nn.softmax(x @ x.T + 0.5 * distance) @ x


@entry(lambda n: (mat(n, 4),))
def sinusoidal(x):
    n, d = x.shape
    angles = jnp.arange(n)[:, None] / 10000 ** (jnp.arange(0, d, 2) / d)
    return x + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)


@entry(lambda n: (mat(n, 4),))
def sinusoidal_by_numpy(x):
    n, d = x.shape
    angles = np.arange(n)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    table = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
    return x + table


@entry(lambda n: (mat(9, 4), ints(n)))
def embedding(table, tokens):
    y = table[tokens]
    return y * 2, jnp.take(table, tokens, axis=0).sum(0)


@entry(lambda n: (mat(n, 5), ints(n)))
def cross_entropy(logits, labels):
    logp = jax.nn.log_softmax(logits)
    return -logp[jnp.arange(labels.shape[0]), labels].mean()


@entry(lambda n: (mat(n, 5), ints(n)))
def cross_entropy_of_one_hot(logits, labels):
    targets = jax.nn.one_hot(labels, 5)
    return -(targets * jax.nn.log_softmax(logits)).sum() / len(labels)


@entry(image, IMAGES)
def convolution_of_batches(x):
    kernel = jnp.ones((3, 3, 1, 2)) / 9
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@entry(side, SIDES, variants=("grad", "vmap", "break"))
def convolution_of_sides(x):
    kernel = jnp.ones((3, 3, 1, 2)) / 9
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@entry(side, SIDES, variants=("grad", "vmap", "break"))
def strided_convolution(x):
    kernel = jnp.ones((3, 3, 1, 2)) / 9
    return lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@entry()
def convolution_of_a_line(x):
    y = jnp.convolve(x, jnp.asarray([0.25, 0.5, 0.25]), mode="same")
    return y * 2


@entry(image, IMAGES)
def max_pool_of_batches(x):
    y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y


@entry(side, SIDES, variants=("grad", "vmap", "break"))
def average_pool_of_sides(x):
    y = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y / 4


@entry(side, SIDES)
def global_pool(x):
    y = x.mean((1, 2))
    return y, x.reshape(x.shape[0], -1).sum(1)


@entry(image, IMAGES)
def flattened(x):
    y = x.reshape(x.shape[0], -1)
    return y @ jnp.ones((36, 2))


@entry(lambda n: (mat(n, 4),))
def residual_blocks(x):
    for w in (W, W.T):
        x = x + jax.nn.gelu(x @ w)
    return x


class Cache:
    """Keys of the tokens so far."""

    def __init__(self):
        self.keys = jnp.zeros((0, 4))


@entry(lambda n: (mat(1, 4) / n,), over=(1, 2, 3, 4, 5, 6, 7, 8), state=Cache, variants=(), captures=4)
def growing_cache(x, cache):
    cache.keys = jnp.concatenate([cache.keys, x])
    return jax.nn.softmax(x @ cache.keys.T) @ cache.keys


@entry(lambda n: (mat(12, 4), mat(1, 4), n), over=(0, 1, 2, 3, 4, 5, 6, 7), variants=("grad", "break"))
def cache_of_fixed_size(keys, x, position):
    keys = lax.dynamic_update_slice(keys, x, (position, 0))
    scores = jnp.where(jnp.arange(12) <= position, (x @ keys.T)[0], -jnp.inf)
    return jax.nn.softmax(scores) @ keys, keys


@entry(lambda n: (mat(n, 4), {"w": W, "b": vec(4)}), variants=("vmap", "break"))
def training_step(x, params):
    def loss(p):
        return ((x @ p["w"] + p["b"]) ** 2).mean()
    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
