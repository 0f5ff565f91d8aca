"""The models that `models.py` measures: small whole networks of several frameworks, each a function of parameters and
a batch.

A row is a name and `make(scale)`, which gives `(forward, parameters, inputs)`; scale 1 is the small size, larger ones
widen the network and its batch. To add one, write such a function under `@model`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import equinox as eqx  # noqa: E402
import haiku as hk  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import small_gpt  # noqa: E402
from flax import linen, nnx  # noqa: E402

Made = tuple[Callable[..., Any], Any, tuple[Any, ...]]
MODELS: dict[str, Callable[[int], Made]] = {}
KEY = jax.random.key(0)


def model(make: Callable[[int], Made]) -> Callable[[int], Made]:
    """Registers a model under its function's name."""
    MODELS[make.__name__] = make
    return make


def normal(*shape: int, seed: int = 1) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


@model
def equinox_mlp(scale: int) -> Made:
    whole = eqx.nn.MLP(16 * scale, 4, 64 * scale, 3, key=KEY)
    params, static = eqx.partition(whole, eqx.is_inexact_array)
    return lambda p, x: jax.vmap(eqx.combine(p, static))(x), params, (normal(32 * scale, 16 * scale),)


class Encoder(linen.Module):
    """A block of BERT."""

    width: int

    @linen.compact
    def __call__(self, x: Any, mask: Any) -> Any:
        for _ in range(2):
            x = linen.LayerNorm()(x + linen.MultiHeadDotProductAttention(4)(x, mask=mask[:, None, None, :]))
            x = linen.LayerNorm()(x + linen.Dense(self.width)(linen.gelu(linen.Dense(4 * self.width)(x))))
        return x


@model
def linen_bert(scale: int) -> Made:
    net, x = Encoder(32 * scale), normal(2 * scale, 16 * scale, 32 * scale)
    mask = jnp.arange(x.shape[1])[None] < jnp.full((x.shape[0], 1), x.shape[1] - 3)
    return lambda p, x, mask: net.apply(p, x, mask), net.init(KEY, x, mask), (x, mask)


class Residual(linen.Module):
    """A small residual network."""

    width: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Conv(self.width, (3, 3))(x)
        for _ in range(2):
            y = linen.relu(linen.GroupNorm(4)(linen.Conv(self.width, (3, 3))(x)))
            x = x + linen.GroupNorm(4)(linen.Conv(self.width, (3, 3))(y))
        return linen.Dense(10)(x.mean((1, 2)))


@model
def linen_resnet(scale: int) -> Made:
    net, x = Residual(8 * scale), normal(2 * scale, 16, 16, 3)
    return lambda p, x: net.apply(p, x), net.init(KEY, x), (x,)


class UNet(linen.Module):
    """Down, across, up."""

    width: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        first = linen.swish(linen.Conv(self.width, (3, 3))(x))
        low = linen.swish(linen.Conv(2 * self.width, (3, 3), strides=2)(first))
        low = linen.swish(linen.Conv(2 * self.width, (3, 3))(low))
        up = linen.ConvTranspose(self.width, (2, 2), strides=(2, 2))(low)
        return linen.Conv(3, (3, 3))(jnp.concatenate([up, first], -1))


@model
def linen_unet(scale: int) -> Made:
    net, x = UNet(8 * scale), normal(2 * scale, 16, 16, 3)
    return lambda p, x: net.apply(p, x), net.init(KEY, x), (x,)


class Perceptron(nnx.Module):
    """Layers with normalisation."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first, self.second = nnx.Linear(16, width, rngs=rngs), nnx.Linear(width, 4, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(nnx.gelu(self.norm(self.first(x))))


@model
def nnx_mlp(scale: int) -> Made:
    structure, state = nnx.split(Perceptron(64 * scale, nnx.Rngs(0)))
    return lambda s, x: nnx.merge(structure, s)(x), state, (normal(32 * scale, 16),)


@model
def haiku_lstm(scale: int) -> Made:
    def run(x: Any) -> Any:
        core = hk.LSTM(32 * scale)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]

    net, x = hk.without_apply_rng(hk.transform(run)), normal(16 * scale, 4 * scale, 8)
    return lambda p, x: net.apply(p, x), net.init(KEY, x), (x,)


@model
def keras_mlp(scale: int) -> Made:
    net = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(64 * scale, "relu"),
                            keras.layers.LayerNormalization(), keras.layers.Dense(4)])
    fixed = [v.value for v in net.non_trainable_variables]
    trained = [v.value for v in net.trainable_variables]
    return lambda p, x: net.stateless_call(p, fixed, x)[0], trained, (normal(32 * scale, 16),)


@model
def plain_gpt(scale: int) -> Made:
    tokens = jax.random.randint(KEY, (4 * scale, 16 * scale), 0, small_gpt.TOKENS)
    return jax.vmap(small_gpt.forward, (None, 0)), small_gpt.initial(KEY), (tokens,)


@model
def plain_mixer(scale: int) -> Made:
    patches, width = 16, 32 * scale
    shapes = [(patches, 2 * patches), (2 * patches, patches), (width, 2 * width), (2 * width, width)]
    params = [[normal(*s, seed=i) / s[0] ** 0.5 for i, s in enumerate(shapes)] for _ in range(2)]

    def forward(params: Any, x: Any) -> Any:
        for a, b, c, d in params:
            y = small_gpt.normalised(x).swapaxes(1, 2)
            x = x + (jax.nn.gelu(y @ a) @ b).swapaxes(1, 2)
            x = x + jax.nn.gelu(small_gpt.normalised(x) @ c) @ d
        return x

    return forward, params, (normal(4 * scale, patches, width),)


@model
def plain_gcn(scale: int) -> Made:
    nodes, edges, width = 64 * scale, 256 * scale, 16 * scale
    ends = jax.random.randint(KEY, (2, edges), 0, nodes)
    params = [normal(width, width, seed=i) / width ** 0.5 for i in range(3)]

    def forward(params: Any, x: Any, ends: Any) -> Any:
        degree = jax.ops.segment_sum(jnp.ones(ends.shape[1]), ends[1], len(x)) + 1
        for w in params:
            x = jax.nn.relu((jax.ops.segment_sum((x @ w)[ends[0]], ends[1], len(x)) + x) / degree[:, None])
        return x

    return forward, params, (normal(nodes, width), ends)


@model
def plain_vae(scale: int) -> Made:
    width, hidden = 32 * scale, 8
    shapes = [(width, 64), (64, 2 * hidden), (hidden, 64), (64, width)]
    params = [normal(*s, seed=i) / s[0] ** 0.5 for i, s in enumerate(shapes)]

    def forward(params: Any, x: Any, key: Any) -> Any:
        mean, spread = jnp.split(jnp.tanh(x @ params[0]) @ params[1], 2, -1)
        z = mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape)
        back = jax.nn.sigmoid(jnp.tanh(z @ params[2]) @ params[3])
        return back, mean ** 2 + jnp.exp(spread) - spread

    return forward, params, (normal(32 * scale, width), KEY)


@model
def plain_ode(scale: int) -> Made:
    width = 16 * scale
    params = [normal(width, width, seed=i) / width ** 0.5 for i in range(2)]

    def forward(params: Any, x: Any) -> Any:
        field = lambda x: jnp.tanh(x @ params[0]) @ params[1]

        def step(x: Any, h: Any) -> Any:
            a = field(x)
            b = field(x + h / 2 * a)
            c = field(x + h / 2 * b)
            return x + h / 6 * (a + 2 * b + 2 * c + field(x + h * c)), None

        return jax.lax.scan(step, x, jnp.full(20, 0.05))[0]

    return forward, params, (normal(8 * scale, width),)
