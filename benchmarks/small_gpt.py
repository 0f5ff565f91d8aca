"""A small GPT in plain JAX, as users write it, and its programs that `lengths.py` runs over many lengths.

Learned positions cut to the length (`positions[:T]`), a causal mask made of the length, a cache of keys and values
that is filled by a prompt and then read up to the present token, and a training step with Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

WIDTH, HEADS, BLOCKS, TOKENS, LONGEST, BATCH = 32, 4, 2, 48, 128, 4
ADAM = optax.adam(1e-3, eps=1e-6)  # a gradient that is rounding alone is no whole step, which would differ in its sign


def initial(key: jax.Array) -> dict[str, Any]:
    """The model's parameters."""
    keys = iter(jax.random.split(key, 4 + 4 * BLOCKS))

    def normal(*shape: int) -> jax.Array:
        return 0.3 * jax.random.normal(next(keys), shape) / shape[0] ** 0.5

    return {"tokens": normal(TOKENS, WIDTH), "positions": normal(LONGEST, WIDTH), "head": normal(WIDTH, TOKENS),
            "blocks": [{"qkv": normal(WIDTH, 3 * WIDTH), "out": normal(WIDTH, WIDTH),
                        "widen": normal(WIDTH, 4 * WIDTH), "narrow": normal(4 * WIDTH, WIDTH)}
                       for _ in range(BLOCKS)]}


def normalised(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def projected(block, x):
    """Queries, keys and values, each [heads, time, width of a head]."""
    time = x.shape[0]
    split = (normalised(x) @ block["qkv"]).reshape(time, 3, HEADS, WIDTH // HEADS)
    return split.transpose(1, 2, 0, 3)


def attended(block, q, k, v, mask):
    scores = q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5
    mixed = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v
    return mixed.transpose(1, 0, 2).reshape(q.shape[1], WIDTH) @ block["out"]


def widened(block, x):
    return jax.nn.gelu(normalised(x) @ block["widen"]) @ block["narrow"]


def forward(params, tokens):
    """Logits [time, tokens] of the token that follows each."""
    time = tokens.shape[0]
    x = params["tokens"][tokens] + params["positions"][:time]
    mask = jnp.tril(jnp.ones((time, time), bool))
    for block in params["blocks"]:
        q, k, v = projected(block, x)
        x = x + attended(block, q, k, v, mask)
        x = x + widened(block, x)
    return normalised(x) @ params["head"]


def prefill(params, cache, tokens):
    """The last token's logits, and the cache with the keys and values of a prompt."""
    time = len(tokens)
    x = params["tokens"][tokens] + params["positions"][:time]
    mask = jnp.arange(time)[:, None] >= jnp.arange(time)[None]
    filled = []
    for block, (keys, values) in zip(params["blocks"], cache):
        q, k, v = projected(block, x)
        filled.append((keys.at[:, :time].set(k), values.at[:, :time].set(v)))
        x = x + attended(block, q, k, v, mask)
        x = x + widened(block, x)
    return normalised(x[-1]) @ params["head"], filled


def decode(params, cache, token, i):
    """One token at position `i`: logits, and the cache with its keys and values."""
    x = (params["tokens"][token] + params["positions"][i])[None]
    filled = []
    for block, (keys, values) in zip(params["blocks"], cache):
        q, k, v = projected(block, x)
        keys, values = keys.at[:, i].set(k[:, 0]), values.at[:, i].set(v[:, 0])
        filled.append((keys, values))
        x = x + attended(block, q, keys[:, :i + 1], values[:, :i + 1], True)
        x = x + widened(block, x)
    return normalised(x[0]) @ params["head"], filled


def train(params, state, tokens):
    """One step of Adam on a batch [batch, time + 1]: parameters, state, loss."""
    return adam_step(jax.vmap(forward, (None, 0)), params, state, tokens)


def adam_step(model, params, state, tokens):
    """The same of any model: `model(params, tokens)` are logits [batch, time, tokens]."""
    def loss(params):
        logits = model(params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = ADAM.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


@dataclass(frozen=True)
class Program:
    """One program and its arguments for a length. static: what `jax.jit` needs as constants."""

    name: str
    fn: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]
    static: tuple[int, ...] = ()


PARAMS = initial(jax.random.key(0))
STATE = ADAM.init(PARAMS)
EMPTY = [(jnp.zeros((HEADS, LONGEST, WIDTH // HEADS)),) * 2 for _ in range(BLOCKS)]


def text(*shape: int) -> jax.Array:
    return jax.random.randint(jax.random.key(1), shape, 0, TOKENS)


PROGRAMS = (
    Program("forward", forward, lambda n: (PARAMS, text(n))),
    Program("prefill", prefill, lambda n: (PARAMS, EMPTY, text(n))),
    Program("decode", decode, lambda n: (PARAMS, EMPTY, text(), n - 1), static=(3,)),
    Program("train", train, lambda n: (PARAMS, STATE, text(BATCH, n + 1))),
)
