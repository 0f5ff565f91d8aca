"""Functions that real models are made of, with example arguments: what fusion is tested on."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(top, *shape):
    return rng.integers(0, top, shape).astype(np.int32)


def layer_norm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * g + b


def rms_norm(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def cross_entropy(x, y):
    logp = jax.nn.log_softmax(x)
    return -jnp.take_along_axis(logp, y[:, None], 1).mean()


def rope(x, cos, sin):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def adam(p, g, m, v, t):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


def embedding_bag(table, ids):
    return table[ids].sum(1)


def attention(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


def mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


def mlp_loss(x, w1, b1, w2, b2):
    return (mlp(x, w1, b1, w2, b2) ** 2).mean()


def lstm(x, h, c, w, u, b):
    i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def avg_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9


def conv(x, w):
    return lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def noise(key, x):
    return x + jax.random.normal(jax.random.wrap_key_data(key), x.shape)


def dropout(key, x):
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0)


REGIONS = {
    "softmax": (jax.nn.softmax, (f32(64, 32),), 1),
    "softmax_axis0": (lambda x: jax.nn.softmax(x, 0), (f32(64, 32),), 1),
    "log_softmax": (jax.nn.log_softmax, (f32(64, 33),), 1),
    "layer_norm": (layer_norm, (f32(64, 32), f32(32), f32(32)), 1),
    "layer_norm_3d": (layer_norm, (f32(4, 16, 32), f32(32), f32(32)), 1),
    "layer_norm_grad": (
        jax.grad(lambda *a: (layer_norm(*a) ** 2).sum(), (0, 1, 2)),
        (f32(64, 32), f32(32), f32(32)),
        None,
    ),
    "rms_norm": (rms_norm, (f32(64, 32), f32(32)), 1),
    "cross_entropy": (cross_entropy, (f32(64, 32), ints(32, 64)), None),
    "cross_entropy_grad": (jax.grad(cross_entropy), (f32(64, 32), ints(32, 64)), None),
    "gelu": (jax.nn.gelu, (f32(64, 33),), 1),
    "gelu_grad": (jax.grad(lambda x: jax.nn.gelu(x).sum()), (f32(64, 33),), 1),
    "rope": (rope, (f32(2, 8, 4, 16), f32(8, 1, 8), f32(8, 1, 8)), 1),
    "adam": (adam, (f32(64, 32), f32(64, 32), f32(64, 32), abs(f32(64, 32)), np.float32(3)), 1),
    "embedding_bag": (embedding_bag, (f32(50, 16), ints(50, 8, 5)), 1),
    "embedding_bag_grad": (
        jax.grad(lambda t, i: (embedding_bag(t, i) ** 2).sum()),
        (f32(50, 16), ints(50, 8, 5)),
        None,
    ),
    "cumsum": (lambda x: jnp.cumsum(x, -1), (f32(8, 33),), 1),
    "cumsum_axis0": (lambda x: jnp.cumsum(x, 0), (f32(8, 33),), 1),
    "reverse_cummax": (lambda x: lax.cummax(x, 1, reverse=True), (f32(8, 33),), 1),
    "cumsum_fused": (lambda x: jnp.cumsum(jnp.exp(x), -1) / x.sum(-1, keepdims=True), (f32(8, 33),), 1),
    "max_pool": (max_pool, (f32(2, 9, 8, 3),), 1),
    "max_pool_grad": (jax.grad(lambda x: (max_pool(x) ** 2).sum()), (f32(2, 8, 8, 3),), None),
    "overlapping_pool_grad": (
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3), (1, 2, 1), "SAME") ** 2).sum()),
        (jnp.round(f32(2, 9, 8)),),
        None,
    ),
    "avg_pool": (avg_pool, (f32(2, 9, 8, 3),), 1),
    "avg_pool_grad": (jax.grad(lambda x: (avg_pool(x) ** 2).sum()), (f32(2, 8, 8, 3),), None),
    "attention": (attention, (f32(2, 8, 3, 16), f32(2, 8, 3, 16), f32(2, 8, 3, 16)), None),
    "attention_grad": (
        jax.grad(lambda *a: attention(*a).sum(), (0, 1, 2)),
        (f32(2, 8, 3, 16), f32(2, 8, 3, 16), f32(2, 8, 3, 16)),
        None,
    ),
    "mlp": (mlp, (f32(8, 32), f32(32, 64), f32(64), f32(64, 10), f32(10)), None),
    "mlp_grad": (jax.grad(mlp_loss, (1, 2, 3, 4)), (f32(8, 32), f32(32, 64), f32(64), f32(64, 10), f32(10)), None),
    "lstm": (lstm, (f32(8, 16), f32(8, 32), f32(8, 32), f32(16, 128), f32(32, 128), f32(128)), None),
    "pad": (lambda x: jnp.pad(jnp.exp(x), ((1, 2), (3, 0)), constant_values=7), (f32(8, 9),), 1),
    "pad_interior": (lambda x: lax.pad(x, np.float32(2), ((1, 2, 1), (-1, 3, 2))), (f32(8, 9),), 1),
    "pad_reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), (f32(8, 9),), None),
    "gather_nd": (lambda x, i: x[i, :, i], (f32(5, 6, 7), ints(5, 4)), 1),
    "take_clip": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), (f32(5, 6, 7), ints(9, 4)), 1),
    "take_fill": (lambda x, i: jnp.take(x, i, axis=1, mode="fill"), (f32(5, 6, 7), ints(9, 4)), 1),
    "one_hot": (lambda i: jax.nn.one_hot(i, 10), (ints(12, 8),), 1),
    "argmax": (lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), (f32(8, 9),), None),
    "any_all": (lambda x: (jnp.any(x > 1, -1), jnp.all(x < 1)), (f32(8, 9),), None),
    "noise": (noise, (np.array([1, 2], np.uint32), f32(33)), None),
    "dropout": (dropout, (np.array([1, 2], np.uint32), f32(8, 9)), None),
    "reshape_mix": (lambda x: jnp.exp(x.reshape(4, 2, 3, 3).transpose(1, 0, 3, 2).reshape(8, 9)), (f32(8, 9),), 1),
    "concat": (lambda x, y: jnp.concatenate([x, jnp.sin(y), x], 1), (f32(8, 9), f32(8, 4)), 1),
    "column_sum": (lambda x: x.sum(0), (f32(100, 33),), 1),
    "middle_sum": (lambda x: x.sum(1), (f32(10, 33, 7),), 1),
    "total": (lambda x: (x * x).sum(), (f32(10, 33, 7),), 1),
    "big_total": (lambda x: jnp.sum(jnp.sin(x)), (f32(1001, 400),), 2),
    "big_columns": (lambda x: jnp.max(x, 0), (f32(9001, 40),), 2),
    "variance": (lambda x: x.var((0, 1)), (f32(10, 33, 7),), None),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 2), (3, 4)) * 2, (f32(8, 9), np.int32(7)), 1),
    "dynamic_update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 2)), (f32(8, 9), f32(3, 4), np.int32(7)), 1),
    "bf16": (lambda x: jax.nn.softmax(x.astype(jnp.bfloat16) * 3), (f32(64, 32),), 1),
    "integers": (lambda x, y: (x // y, x % y, x << 3, -x), (ints(99, 40), ints(5, 40) - 2), None),
    "conv": (lambda x, w: jax.nn.relu(conv(x, w)), (f32(2, 9, 8, 3), f32(3, 3, 3, 5)), None),
    "conv_grad": (jax.grad(lambda x, w: (conv(x, w) ** 2).sum(), (0, 1)), (f32(2, 9, 8, 3), f32(3, 3, 3, 5)), None),
    "sort": (lambda x: jnp.sort(x, -1), (f32(8, 9),), None),
    "argsort": (lambda x: jnp.argsort(-x.T, 0), (f32(8, 9),), None),
    "top_k": (lambda x: lax.top_k(x * 2, 3), (f32(8, 9),), None),
    "top_k_values": (lambda x: lax.top_k(x, 3)[0] + 1, (f32(8, 9),), None),
    "scatter_one": (lambda x, i: x.at[:, i].add(3.0), (f32(8, 9), np.int32(4)), 1),
    "scatter_rows": (lambda x, i, u: x.at[i].add(u), (f32(8, 9), ints(8, 6), f32(6, 9)), 2),
    "scatter_outside": (lambda x, i, u: x.at[i, 1:3].max(u), (f32(8, 9), ints(12, 6) - 2, f32(6, 2)), None),
    "scatter_clip": (lambda x, i, u: x.at[i].mul(u, mode="clip"), (f32(8, 9), ints(20, 6), f32(6, 9)), None),
    "histogram": (lambda i: jnp.zeros(10, jnp.int32).at[i].add(1), (ints(10, 50),), 2),
    "scatter_batched": (jax.vmap(lambda x, i, u: x.at[i].add(u)), (f32(4, 8), ints(8, 4, 6), f32(4, 6)), 2),
    "scatter_set": (lambda x, i: x.at[i].set(3.0), (f32(8, 9), ints(8, 3)), None),
    "group_norm": (
        lambda x: (
            lambda y: ((y - y.mean((1, 3), keepdims=True)) * lax.rsqrt(y.var((1, 3), keepdims=True) + 1e-5)).reshape(
                x.shape
            )
        )(x.reshape(2, 16, 4, 2)),
        (f32(2, 16, 8),),
        None,
    ),
    "outer": (lambda x, y: jnp.exp(x)[:, None] * jnp.exp(y)[None, :], (f32(33), f32(20)), None),
    "matvec": (lambda a, x: jnp.tanh(a @ x), (f32(64, 65), f32(65)), None),
}
