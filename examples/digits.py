"""Handwritten digits: an MLP and a CNN in plain eager JAX, trained to 97 % and more.

    python examples/digits.py --compiler eager|jax|dynacomp [--steps N]

The data are scikit-learn's 1,797 bundled scans of 8×8 pixels; every fifth one is for testing.
Nothing here knows which compiler runs it: the train step is an ordinary function, and what
decorates it comes from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import common
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from sklearn.datasets import load_digits

BATCH = 128


def load() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Train and test images [n, 8, 8, 1] f32 in [0, 1], and their labels [n] i32."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    test = np.arange(len(labels)) % 5 == 0
    return tuple(map(jnp.asarray, (images[~test], labels[~test], images[test], labels[test])))


def batches(images: jax.Array, labels: jax.Array, seed: int) -> Iterator[tuple[jax.Array, jax.Array]]:
    """Shuffled batches, epoch after epoch, for ever."""
    order = np.random.default_rng(seed)
    while True:
        shuffled = order.permutation(len(labels))
        for i in range(0, len(shuffled) - BATCH + 1, BATCH):
            yield images[shuffled[i:i + BATCH]], labels[shuffled[i:i + BATCH]]


def dense_init(key: jax.Array, fan_in: int, fan_out: int) -> dict[str, jax.Array]:
    w = jax.random.normal(key, (fan_in, fan_out)) * np.sqrt(2 / fan_in)
    return {"w": w, "b": jnp.zeros(fan_out)}


def conv_init(key: jax.Array, channels_in: int, channels_out: int) -> dict[str, jax.Array]:
    w = jax.random.normal(key, (3, 3, channels_in, channels_out)) * np.sqrt(2 / (9 * channels_in))
    return {"w": w, "b": jnp.zeros(channels_out)}


def dense(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ params["w"] + params["b"]


def conv(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    y = lax.conv_general_dilated(x, params["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + params["b"]


def max_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def mlp_init(key: jax.Array) -> list[dict[str, jax.Array]]:
    sizes = [64, 256, 128, 10]
    return [dense_init(k, m, n) for k, m, n in zip(jax.random.split(key, 3), sizes, sizes[1:])]


def mlp(params: list[dict[str, jax.Array]], images: jax.Array) -> jax.Array:
    """Logits [n, 10] of images [n, 8, 8, 1]."""
    x = images.reshape(images.shape[0], -1)
    for layer in params[:-1]:
        x = jax.nn.relu(dense(layer, x))
    return dense(params[-1], x)


def cnn_init(key: jax.Array) -> dict[str, dict[str, jax.Array]]:
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {"conv1": conv_init(k1, 1, 16), "conv2": conv_init(k2, 16, 32),
            "dense1": dense_init(k3, 2 * 2 * 32, 64), "dense2": dense_init(k4, 64, 10)}


def cnn(params: dict[str, dict[str, jax.Array]], images: jax.Array) -> jax.Array:
    """Logits [n, 10] of images [n, 8, 8, 1]."""
    x = max_pool(jax.nn.gelu(conv(params["conv1"], images)))
    x = max_pool(jax.nn.gelu(conv(params["conv2"], x)))
    x = jax.nn.gelu(dense(params["dense1"], x.reshape(x.shape[0], -1)))
    return dense(params["dense2"], x)


def make_step(model: Callable, optimizer: optax.GradientTransformation) -> Callable:
    """One step of training: (params, optimizer state, images, labels) → (params, state, loss)."""

    def loss_of(params, images, labels):
        return optax.softmax_cross_entropy_with_integer_labels(model(params, images), labels).mean()

    def step(params, state, images, labels):
        loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step


def run(name: str, init: Callable, model: Callable, args) -> common.Result:
    train_images, train_labels, test_images, test_labels = load()
    optimizer = optax.adam(2e-3)
    params = init(jax.random.key(0))
    state = optimizer.init(params)
    data = batches(train_images, train_labels, seed=0)
    step = common.compiler(args.compiler)(make_step(model, optimizer))

    def train_step(_: int) -> jax.Array:
        nonlocal params, state
        params, state, loss = step(params, state, *next(data))
        return loss

    result = common.train(name, args, train_step)
    accuracy = jnp.mean(model(params, test_images).argmax(-1) == test_labels)
    return replace(result, extra={"test accuracy": float(accuracy)})


if __name__ == "__main__":
    arguments = common.arguments(__doc__.splitlines()[0], steps=300)
    common.report(arguments, [run("digits mlp", mlp_init, mlp, arguments),
                              run("digits cnn", cnn_init, cnn, arguments)])
