"""Functions of real models, with example inputs: what lowering, passes and printing are tested on.

Each row of `PROGRAMS` is name → (function, inputs). Small shapes, no two dimensions alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_R = np.random.default_rng(0)


def f32(*shape: int) -> jax.Array:
    return jnp.asarray(_R.standard_normal(shape), jnp.float32)


def i32(high: int, *shape: int) -> jax.Array:
    return jnp.asarray(_R.integers(0, high, shape), jnp.int32)


KEY = jax.random.key(7)
OLD_KEY = jax.random.PRNGKey(7)


def layer_norm(x, g, b):
    m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def attention(q, k, v):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s), v)


def conv_net(w, x):
    y = lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return (y**2).sum()


def adam(p, g, m, v, step):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    mh, vh = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return p - 1e-3 * mh / (jnp.sqrt(vh) + 1e-8), m, v


def rope(x):
    t, d = x.shape
    angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, d, 2) / d)
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


def lstm(w, u, xs):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros(u.shape[0])
    return lax.scan(step, (zero, zero), xs)


def newton(x):
    return lax.while_loop(lambda y: jnp.abs(y * y - x) > 1e-4, lambda y: 0.5 * (y + x / y), x)


def branches(x):
    return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


def keys(key):
    a, b = jax.random.split(key)
    more = jax.random.split(jax.random.fold_in(b, 3), 3)
    return jax.random.normal(a, (3, 5)), jax.vmap(lambda k: jax.random.uniform(k, (2,)))(more), more[1]


def straight_through(x):
    return x + lax.stop_gradient(jnp.round(x) - x)


@jax.custom_vjp
def clipped(x):
    return jnp.clip(x, -1, 1)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g * (jnp.abs(x) < 2),))

Program = tuple[Callable[..., Any], tuple[Any, ...]]

PROGRAMS: dict[str, Program] = {
    "softmax": (jax.nn.softmax, (f32(4, 5),)),
    "log_softmax_grad": (jax.grad(lambda x: jax.nn.log_softmax(x)[0, 1]), (f32(4, 5),)),
    "layer_norm": (layer_norm, (f32(4, 5), f32(5), f32(5))),
    "layer_norm_grad": (jax.grad(lambda *a: (layer_norm(*a) ** 2).sum(), (0, 1, 2)),
                        (f32(4, 5), f32(5), f32(5))),
    "gelu": (jax.nn.gelu, (f32(4, 5),)),
    "gelu_exact_grad": (jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), (f32(4, 5),)),
    "activations": (lambda x: [f(x) for f in (jax.nn.relu, jax.nn.silu, jax.nn.elu, jax.nn.softplus,
                                              jax.nn.leaky_relu, jax.nn.selu, jax.nn.mish)], (f32(4, 5),)),
    "cross_entropy_grad": (jax.value_and_grad(cross_entropy), (f32(4, 5), i32(5, 4))),
    "embedding": (lambda t, i: t[i], (f32(7, 3), i32(7, 2, 4))),
    "embedding_grad": (jax.grad(lambda t, i: (t[i] ** 2).sum()), (f32(7, 3), i32(7, 2, 4))),
    "attention": (attention, tuple(f32(2, 3, 5, 4) for _ in "qkv")),
    "attention_grad": (jax.grad(lambda *a: attention(*a).sum(), (0, 1, 2)),
                       tuple(f32(2, 3, 5, 4) for _ in "qkv")),
    "dot_product_attention": (jax.nn.dot_product_attention, tuple(f32(2, 5, 3, 4) for _ in "qkv")),
    "conv_net_grad": (jax.grad(conv_net, (0, 1)), (f32(3, 3, 2, 4), f32(2, 7, 6, 2))),
    "adam": (adam, (f32(4, 5), f32(4, 5), f32(4, 5), f32(4, 5) ** 2, jnp.int32(3))),
    "rope": (rope, (f32(6, 8),)),
    "lstm": (lstm, (f32(3, 16), f32(4, 16), f32(5, 3))),
    "lstm_long": (lstm, (f32(3, 16), f32(4, 16), f32(40, 3))),
    "lstm_grad": (jax.grad(lambda *a: lstm(*a)[1].sum()), (f32(3, 16), f32(4, 16), f32(5, 3))),
    "cumsum": (lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True), jnp.cumprod(x, 0)), (f32(4, 5),)),
    "cum_others": (lambda x: (lax.cummax(x), lax.cummin(x, 1), lax.cumlogsumexp(x, 1)), (f32(4, 5),)),
    "avg_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 2, 1), "VALID"),
                 (f32(2, 5, 6, 3),)),
    "normal": (lambda k: jax.random.normal(k, (3, 4)), (KEY,)),
    "old_normal": (lambda k: jax.random.normal(k, (3, 4)), (OLD_KEY,)),
    "dropout": (lambda k, x: jnp.where(jax.random.bernoulli(k, 0.8, x.shape), x / 0.8, 0), (KEY, f32(4, 5))),
    "categorical": (jax.random.categorical, (KEY, f32(4, 5))),
    "seeded": (lambda s: jax.random.randint(jax.random.key(s), (5,), 0, 9), (jnp.int32(3),)),
    "permutation": (lambda k: jax.random.permutation(k, 9), (KEY,)),
    "gamma": (lambda k: jax.random.gamma(k, 2.5, (3,)), (KEY,)),
    "keys": (keys, (KEY,)),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, 0), lax.top_k(x, 2)), (f32(4, 5),)),
    "scatter_modes": (lambda x, i, u: [getattr(x.at[i], m)(u) for m in ("set", "add", "min", "max", "mul")],
                      (f32(6, 3), i32(9, 2), f32(2, 3))),
    "gather_modes": (lambda x, i: [x.at[i].get(mode=m) for m in ("clip", "fill", "promise_in_bounds")],
                     (f32(6, 3), i32(6, 4))),
    "out_of_bounds": (lambda x, i: (x.at[i].get(mode="fill", fill_value=-1.0), x.at[i].set(0, mode="drop")),
                      (f32(3, 3), i32(9, 4))),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (i32(5, 4),)),
    "einsum": (lambda a, b: (jnp.einsum("ij,kj->ik", a, b), jnp.einsum("ij,kj->", a, b),
                             jnp.einsum("ij->ji", a)), (f32(2, 3), f32(4, 3))),
    "half_matmul": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32),
                    (f32(2, 3).astype(jnp.bfloat16), f32(3, 4).astype(jnp.bfloat16))),
    "integers": (lambda a, b: (a // b, a % b, a << 2, a ^ b, -a, a * b, lax.population_count(a), lax.clz(a)),
                 (i32(99, 4) - 50, i32(9, 4) - 4)),
    "complex": (lambda x: (jnp.abs(x + 1j * x), jnp.fft.fft(x).real, jnp.angle(x * 1j)), (f32(8),)),
    "linalg": (lambda x: (jnp.linalg.inv(x), jnp.linalg.svd(x)[1],
                         jnp.linalg.cholesky(x @ x.T + 5 * jnp.eye(4))), (f32(4, 4),)),
    "solve_grad": (jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()),
                   (f32(4, 4) + 4 * np.eye(4, dtype=np.float32), f32(4))),
    "newton": (newton, (jnp.float32(5.0),)),
    "cond": (branches, (f32(4),)),
    "fixed_cond": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (f32(4),)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x), (f32(4),)),
    "map": (lambda x: lax.map(jnp.sin, x), (f32(20, 3),)),
    "remat_grad": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), (f32(4),)),
    "straight_through": (jax.value_and_grad(lambda x: straight_through(x).sum()), (f32(4),)),
    "custom_vjp": (jax.value_and_grad(lambda x: clipped(x).sum()), (f32(4) * 2,)),
    "vmap_grad": (jax.vmap(jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (None, 0)), (f32(3, 2), f32(5, 3))),
    "hessian": (jax.hessian(lambda x: (jnp.sin(x) * x**3).sum()), (f32(3),)),
    "indexing": (lambda x, i: (x[1], x[:, -2:], x[::2, ::-1], x[..., None], x[i, 1], x[i],
                               jnp.roll(x, 2, 1)), (f32(4, 5), jnp.int32(2))),
    "layouts": (lambda x: (x.T.reshape(-1), jnp.pad(x, ((1, 2), (0, 1))), jnp.tile(x, (2, 1)),
                           jnp.stack([x, x]), jnp.repeat(x, 2, 0), jnp.unstack(x), x[:, ::-1]), (f32(4, 5),)),
    "reductions": (lambda x: (x.max(), x.min(0), x.prod(1), jnp.argmax(x, 1), (x > 0).any(), (x > 0).all(0),
                              jnp.median(x), x.std(), jax.nn.logsumexp(x, 1)), (f32(4, 5),)),
    "searchsorted": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), (f32(9), f32(4))),
    "bincount": (functools.partial(jnp.bincount, length=6), (i32(6, 20),)),
    "interp": (jnp.interp, (f32(5), jnp.arange(4.0), f32(4))),
    "weak": (lambda x: (x * 2, 3.0 * jnp.ones(2), jnp.full((), 2)), (f32(3),)),
    "special": (lambda x: (lax.lgamma(x), lax.digamma(x), lax.erf_inv(x / 9), lax.igamma(x, x), lax.cbrt(x),
                           lax.nextafter(x, x + 1), lax.log1p(x), jnp.sinc(x)), (jnp.abs(f32(5)) + 0.1,)),
    "casts": (lambda x: (x.astype(jnp.int8), x.astype(jnp.bfloat16).astype(jnp.float32), x > 0,
                         lax.bitcast_convert_type(x, jnp.int32), lax.reduce_precision(x, 5, 10)), (f32(5),)),
    "constants": (lambda: (jnp.arange(5), jnp.eye(3), 2.0), ()),
    "same_twice": (lambda x: (x, x, x + 0), (f32(2),)),
}
