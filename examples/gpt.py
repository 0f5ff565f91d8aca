"""A character-level GPT in Equinox, trained on the English text that every Python ships.

    python examples/gpt.py --compiler eager|jax|dynacomp [--steps N]

The text is the language reference in `pydoc_data.topics`. After training, `write` makes up a sentence: it
draws a character, prints it, and goes on until it draws a full stop. Such a loop cannot be jitted as a whole;
under "jax" only the model's forward pass is, under dynacomp `write` itself is compiled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pydoc_data.topics import topics

import common
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

CONTEXT, BATCH = 64, 16
WIDTH, HEADS, BLOCKS = 64, 4, 2
STOP, LONGEST = ".", 200

TEXT = "\n".join(topics[name] for name in sorted(topics))
ALPHABET = sorted(set(TEXT))
TOKENS = np.searchsorted(ALPHABET, list(TEXT)).astype(np.int32)


class Attention(eqx.Module):
    """Causal self-attention over [time, width]."""

    project: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, key: jax.Array):
        k1, k2 = jax.random.split(key)
        self.project = eqx.nn.Linear(WIDTH, 3 * WIDTH, use_bias=False, key=k1)
        self.out = eqx.nn.Linear(WIDTH, WIDTH, use_bias=False, key=k2)

    def __call__(self, x: jax.Array) -> jax.Array:
        time = x.shape[0]
        q, k, v = jnp.split(jax.vmap(self.project)(x).reshape(time, 3 * HEADS, -1), 3, axis=1)
        scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v)
        return jax.vmap(self.out)(mixed.reshape(time, WIDTH))


class Block(eqx.Module):
    """Attention and a GELU layer, each normalised before and added after."""

    norm1: eqx.nn.LayerNorm
    attention: Attention
    norm2: eqx.nn.LayerNorm
    widen: eqx.nn.Linear
    narrow: eqx.nn.Linear

    def __init__(self, key: jax.Array):
        k1, k2, k3 = jax.random.split(key, 3)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)
        self.attention = Attention(k1)
        self.widen = eqx.nn.Linear(WIDTH, 4 * WIDTH, key=k2)
        self.narrow = eqx.nn.Linear(4 * WIDTH, WIDTH, key=k3)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(jax.vmap(self.norm1)(x))
        hidden = jax.nn.gelu(jax.vmap(self.widen)(jax.vmap(self.norm2)(x)))
        return x + jax.vmap(self.narrow)(hidden)


class GPT(eqx.Module):
    """Logits [time, alphabet] of the character that follows each of tokens [time]."""

    embedding: eqx.nn.Embedding
    positions: jax.Array
    blocks: list[Block]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.embedding = eqx.nn.Embedding(len(ALPHABET), WIDTH, key=k1)
        self.positions = 0.02 * jax.random.normal(k2, (CONTEXT, WIDTH))
        self.blocks = [Block(k) for k in jax.random.split(k3, BLOCKS)]
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.head = eqx.nn.Linear(WIDTH, len(ALPHABET), key=k4)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embedding.weight[tokens] + self.positions
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


def batches(seed: int) -> Iterator[jax.Array]:
    """Random stretches of the text, [batch, context + 1] i32, for ever."""
    order = np.random.default_rng(seed)
    while True:
        starts = order.integers(0, len(TOKENS) - CONTEXT - 1, BATCH)
        yield jnp.asarray(TOKENS[starts[:, None] + np.arange(CONTEXT + 1)])


def loss_of(model: GPT, tokens: jax.Array) -> jax.Array:
    logits = jax.vmap(model)(tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def make_step(optimizer: optax.GradientTransformation):
    """One step of training: (model, optimizer state, tokens) → (model, state, loss)."""

    def step(model, state, tokens):
        loss, grads = eqx.filter_value_and_grad(loss_of)(model, tokens)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, loss

    return step


def write(model: GPT, prompt: str, key: jax.Array) -> str:
    """Go on from `prompt` until a full stop, printing every character as it is drawn."""
    text = prompt
    window = jnp.asarray(np.searchsorted(ALPHABET, list(prompt.rjust(CONTEXT))).astype(np.int32))
    while len(text) < LONGEST:
        key, draw = jax.random.split(key)
        token = jax.random.categorical(draw, model(window)[-1])
        window = jnp.append(window[1:], token)
        character = ALPHABET[int(token)]
        text += character
        print(character, end="", file=sys.stderr, flush=True)
        if character == STOP:
            break
    return text


def run(args) -> common.Result:
    model = GPT(jax.random.key(0))
    optimizer = optax.adamw(3e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    data = batches(seed=0)
    step = common.compiler(args.compiler, jit=eqx.filter_jit)(make_step(optimizer))

    def train_step(_: int) -> jax.Array:
        nonlocal model, state
        model, state, loss = step(model, state, next(data))
        return loss

    result = common.train("gpt", args, train_step)
    return replace(result, extra={"ms / character": sample(model, args.compiler)})


def sample(model: GPT, compiler: str) -> float:
    """Write one sentence twice, and return the milliseconds per character of the second time."""
    writer, prompt = write, "The "
    if compiler == "jax":
        model = eqx.filter_jit(model)
    elif compiler == "dynacomp":
        writer = common.compiler(compiler)(write)
    for _ in range(2):
        print(prompt, end="", file=sys.stderr)
        start = time.perf_counter()
        text = writer(model, prompt, jax.random.key(1))
        seconds = time.perf_counter() - start
        print(file=sys.stderr)
    return 1e3 * seconds / (len(text) - len(prompt))


if __name__ == "__main__":
    arguments = common.arguments(__doc__.splitlines()[0], steps=200)
    common.report(arguments, [run(arguments)])
