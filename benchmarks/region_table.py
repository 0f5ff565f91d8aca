"""The regions that `regions.py` measures: pieces of real models, at sizes that such models have.

A row is a name, a function of arrays in plain JAX, and how its arguments are made. To add one,
write a function and a row of `REGIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NHWC = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class Region:
    """One row: `fn(*make())` is what is measured."""

    name: str
    fn: Callable[..., Any]
    make: Callable[[], tuple]


class Draw:
    """Arrays from a fixed seed: `Draw()(4, 3)` is normal f32[4, 3]."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int, dtype: Any = np.float32) -> jax.Array:
        return jnp.asarray(self.rng.standard_normal(shape, np.float32)).astype(dtype)

    def ints(self, high: int, *shape: int) -> jax.Array:
        return jnp.asarray(self.rng.integers(0, high, shape, np.int32))


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[[], tuple]:
    """Makes one normal array of each shape."""

    def make() -> tuple:
        draw = Draw()
        return tuple(draw(*shape, dtype=dtype) for shape in shapes)

    return make


def drawn(make: Callable[[Draw], tuple]) -> Callable[[], tuple]:
    return lambda: make(Draw())


def total_grad(fn: Callable, argnums: Any = 0) -> Callable:
    """Forward and backward: the gradient of the sum of squares of what `fn` returns."""
    return jax.value_and_grad(lambda *a: jnp.sum(jnp.square(fn(*a).astype(jnp.float32))), argnums)


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def cross_entropy(logits, labels):
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, labels[:, None], 1).mean()


def one_hot_loss(logits, labels):
    return -(jax.nn.one_hot(labels, logits.shape[-1]) * jax.nn.log_softmax(logits)).sum(-1).mean()


def gated_mlp(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def rope(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def adam(params, grads, first, second, step):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * jnp.square(g), second, grads)
    c1, c2 = 1 - 0.9 ** step, 1 - 0.999 ** step
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8),
                          params, first, second)
    return params, first, second


def adam_arguments(draw: Draw) -> tuple:
    shapes = [(512, 512), (512,), (512, 2048), (2048,), (2048, 512), (512,), (512, 512), (512,)]
    trees = [[draw(*s) for s in shapes] for _ in range(4)]
    return (*trees[:3], [jnp.abs(v) for v in trees[3]], jnp.float32(7))


def embedding_bag(table, ids):
    return table[ids].mean(1)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def avg_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9


def conv(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC)


def depthwise(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=x.shape[-1])


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def causal_attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v)


def mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


def lstm_cell(x, h, c, wx, wh, b):
    i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def lstm(xs, h, c, wx, wh, b):
    def step(carry, x):
        h, c = lstm_cell(x, *carry, wx, wh, b)
        return (h, c), h

    return lax.scan(step, (h, c), xs)[1]


def gru_cell(x, h, wx, wh, bx, bh):
    rx, zx, nx = jnp.split(x @ wx + bx, 3, -1)
    rh, zh, nh = jnp.split(h @ wh + bh, 3, -1)
    z = jax.nn.sigmoid(zx + zh)
    return (1 - z) * jnp.tanh(nx + jax.nn.sigmoid(rx + rh) * nh) + z * h


def batch_norm(x, scale, bias, mean, var):
    m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
    y = (x - m) * lax.rsqrt(v + 1e-5) * scale + bias
    return y, 0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v


def group_norm(x, scale, bias):
    n, h, w, c = x.shape
    g = x.reshape(n, h * w, 8, c // 8)
    g = (g - g.mean((1, 3), keepdims=True)) * lax.rsqrt(g.var((1, 3), keepdims=True) + 1e-5)
    return g.reshape(x.shape) * scale + bias


def dropout(x, key):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0)


def sample(logits, key):
    return jnp.argmax(logits + jax.random.gumbel(key, logits.shape), -1)


def pairwise(a, b):
    square = jnp.sum(a * a, -1)[:, None] + jnp.sum(b * b, -1) - 2 * a @ b.T
    return jnp.sqrt(jnp.maximum(square, 0))


def norm_bf16(x, residual, scale):
    y = (x + residual).astype(jnp.float32)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)
    return y.astype(x.dtype) * scale


def small_chain(x, y):
    return jnp.tanh(x * y + 1) - x


HEADS = ((4, 8, 256, 64),) * 3
MLP = ((256, 512), (512, 2048), (2048,), (2048, 512), (512,))
CELL = ((64, 256), (64, 256), (64, 256), (256, 1024), (256, 1024), (1024,))
IMAGE = (16, 32, 32, 64)

REGIONS = {r.name: r for r in (
    Region("softmax", jax.nn.softmax, arrays((4096, 1024))),
    Region("log-softmax", jax.nn.log_softmax, arrays((4096, 1024))),
    Region("logsumexp", lambda x: jax.nn.logsumexp(x, -1), arrays((4096, 1024))),
    Region("variance", lambda x: x.var(-1), arrays((4096, 1024))),
    Region("layer norm", layer_norm, arrays((4096, 768), (768,), (768,))),
    Region("layer norm, grad", total_grad(layer_norm, (0, 1, 2)), arrays((4096, 768), (768,), (768,))),
    Region("rms norm", rms_norm, arrays((4096, 768), (768,))),
    Region("rms norm, bf16 + residual", norm_bf16,
           arrays((4096, 768), (4096, 768), (768,), dtype=jnp.bfloat16)),
    Region("batch norm", batch_norm, arrays(IMAGE, (64,), (64,), (64,), (64,))),
    Region("group norm", group_norm, arrays(IMAGE, (64,), (64,))),
    Region("cross-entropy", cross_entropy, drawn(lambda d: (d(1024, 8192), d.ints(8192, 1024)))),
    Region("cross-entropy, grad", jax.value_and_grad(cross_entropy),
           drawn(lambda d: (d(1024, 8192), d.ints(8192, 1024)))),
    Region("one-hot loss, grad", jax.value_and_grad(one_hot_loss),
           drawn(lambda d: (d(4096, 1000), d.ints(1000, 4096)))),
    Region("gelu", jax.nn.gelu, arrays((2048, 2048))),
    Region("gelu, erf, grad", total_grad(lambda x: jax.nn.gelu(x, False)), arrays((2048, 2048))),
    Region("sin·exp·tanh", lambda x: jnp.sin(x) * jnp.exp(-x * x) * jnp.tanh(x), arrays((2048, 2048))),
    Region("small chain", small_chain, arrays((64,), (64,))),
    Region("rope", rope, drawn(lambda d: (d(8, 512, 8, 64), jnp.arange(512, dtype=jnp.float32)))),
    Region("adam", adam, drawn(adam_arguments)),
    Region("embedding bag", embedding_bag, drawn(lambda d: (d(50000, 128), d.ints(50000, 512, 64)))),
    Region("embedding, grad", total_grad(lambda t, i: t[i]),
           drawn(lambda d: (d(20000, 128), d.ints(20000, 4096)))),
    Region("cumsum", lambda x: jnp.cumsum(x, -1), arrays((2048, 2048))),
    Region("max-pool", max_pool, arrays((16, 64, 64, 64))),
    Region("max-pool, grad", total_grad(max_pool), arrays((16, 64, 64, 64))),
    Region("avg-pool", avg_pool, arrays((16, 64, 64, 64))),
    Region("depthwise convolution", depthwise, arrays((8, 64, 64, 96), (3, 3, 1, 96))),
    Region("convolution", conv, arrays((8, 32, 32, 64), (3, 3, 64, 64))),
    Region("convolution, grad", total_grad(conv, (0, 1)), arrays((8, 32, 32, 64), (3, 3, 64, 64))),
    Region("attention", attention, arrays(*HEADS)),
    Region("causal attention, grad", total_grad(causal_attention, (0, 1, 2)), arrays(*HEADS)),
    Region("mlp", mlp, arrays(*MLP)),
    Region("mlp, grad", total_grad(mlp, (0, 1, 2, 3, 4)), arrays(*MLP)),
    Region("gated mlp", gated_mlp, arrays((256, 512), (512, 1408), (512, 1408), (1408, 512))),
    Region("lstm cell", lstm_cell, arrays(*CELL)),
    Region("lstm, 32 steps", lstm, drawn(lambda d: (  # weights of a trained size: larger ones make it chaotic
        d(32, 64, 256), d(64, 256), d(64, 256), d(256, 1024) / 16, d(256, 1024) / 16, d(1024)))),
    Region("gru cell", gru_cell, arrays((64, 256), (64, 256), (256, 768), (256, 768), (768,), (768,))),
    Region("dropout", dropout, drawn(lambda d: (d(1024, 1024), jax.random.PRNGKey(7)))),
    Region("sampling", sample, drawn(lambda d: (d(64, 8192), jax.random.PRNGKey(7)))),
    Region("pairwise distance", pairwise, arrays((1024, 64), (1024, 64))),
)}
