"""Keras 3 on its JAX backend: stateless calls in a training step of one's own, and `fit` beside it."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import optax  # noqa: E402

from tests.frameworks.registry import model  # noqa: E402

if keras.backend.backend() != "jax":
    raise ImportError("keras runs on another backend here", name="keras")

X, Y = jax.random.normal(jax.random.key(0), (8, 6)), jax.random.normal(jax.random.key(1), (8, 1))


def values(variables):
    return [v.value for v in variables]


@model(breaks={"call": 1}, eager=("traced",))  # optree, which flattens trees in C++
def sequential_stateless(jit):
    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(8, activation="relu"),
                            keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    tx = optax.sgd(0.05)

    def loss_fn(trainable, fixed, x, y):
        out, fixed = net.stateless_call(trainable, fixed, x, training=True)
        return jnp.mean((out - y) ** 2), fixed

    @jit
    def train_step(trainable, fixed, slots, x, y):
        (loss, fixed), grads = jax.value_and_grad(loss_fn, has_aux=True)(trainable, fixed, x, y)
        updates, slots = tx.update(grads, slots, trainable)
        return optax.apply_updates(trainable, updates), fixed, slots, loss

    trainable, fixed = values(net.trainable_variables), values(net.non_trainable_variables)
    slots, losses = tx.init(trainable), []
    for _ in range(3):
        trainable, fixed, slots, loss = train_step(trainable, fixed, slots, X, Y)
        losses.append(loss)
    return losses, trainable, fixed


