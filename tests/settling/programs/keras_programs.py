"""Keras on JAX: layers and models called, and made in the call."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402

from tests.settling.kit import program  # noqa: E402

keras.utils.set_random_seed(0)
ATTENTION = keras.layers.MultiHeadAttention(2, 4)
ATTENTION.build((2, 5, 8), (2, 5, 8))
MODEL = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.LayerNormalization(), keras.layers.Dense(1)])
MODEL.build((None, 3))


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (2, 5, 8)),))
def attention(x):
    return ATTENTION(x, x) + x


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (2 + i % 3, 3)),))
def sequential(x):
    return MODEL(x)


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (2, 3)), jnp.ones((2, 1))))
def stateless(x, y):
    trainable = [v.value for v in MODEL.trainable_variables]
    fixed = [v.value for v in MODEL.non_trainable_variables]

    def loss(t):
        found, _ = MODEL.stateless_call(t, fixed, x)
        return jnp.mean((found - y) ** 2)

    print(end="")
    return jax.grad(loss)(trainable)


@program(args=lambda i: (jnp.ones((2, 3)) * i,), open="Keras's frames below a break are left to Python")
def layer_made(x):
    layer = keras.layers.Dense(4, kernel_initializer="ones")
    print(end="")
    return layer(x)
