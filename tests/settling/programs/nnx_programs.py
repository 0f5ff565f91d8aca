"""Flax NNX and Linen: models, optimisers, states and steps made in the call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import nnx
from flax.training import train_state

from tests.settling.kit import program


def data(i: int) -> tuple[Any, ...]:
    return jax.random.normal(jax.random.key(i), (4, 3)), jnp.ones((4, 1)) * i


class MLP(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.second = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.norm(self.first(x))))


@program(args=data)
def nnx_loop(x, y):
    model = MLP(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    for step in range(2):
        value, grads = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        print(step)
    return value, nnx.state(model, nnx.Param).flat_state().leaves


@program(args=data, open="an nnx.jit step made in the call: tables by id, and sizes as keys")
def nnx_jitted(x, y):
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x, y):
        value, grads = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return value

    print(end="")
    return [step(model, optimizer, x, y) for _ in range(2)], model.kernel[...]


@program(args=data)
def nnx_functional(x, y):
    graphdef, state = nnx.split(nnx.Linear(3, 1, rngs=nnx.Rngs(1)))
    print(end="")
    grads = jax.grad(lambda s: jnp.mean((nnx.merge(graphdef, s)(x) - y) ** 2))(state)
    return jax.tree.leaves(jax.tree.map(lambda p, g: p - 0.1 * g, state, grads))


class Net(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(x)))


@program(args=data)
def linen_train_state(x, y):
    net = Net(8)
    state = train_state.TrainState.create(apply_fn=net.apply, params=net.init(jax.random.key(0), x),
                                          tx=optax.adam(1e-2))

    def loss(p):
        return jnp.mean((state.apply_fn(p, x) - y) ** 2)

    for step in range(2):
        value, grads = jax.value_and_grad(loss)(state.params)
        state = state.apply_gradients(grads=grads)
        print(step)
    return state.params, value


class Deep(nn.Module):
    layers: int

    @nn.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = nn.tanh(nn.Dense(x.shape[-1])(x))
        return x


def step_of(state, x, y):
    value, grads = jax.value_and_grad(lambda p: jnp.mean((state.apply_fn(p, x) - y) ** 2))(state.params)
    return state.apply_gradients(grads=grads), value


@program(args=lambda i: (1 + i % 2, *data(i)))
def linen_of_changing_depth(layers, x, y):
    net, losses = Deep(layers), []
    state = train_state.TrainState.create(apply_fn=net.apply, params=net.init(jax.random.key(layers), x),
                                          tx=optax.adamw(1e-2))
    for _ in range(2):
        state, value = step_of(state, x, y)
        losses.append(float(value))
    print(len(losses))
    return losses, state.apply_fn(state.params, x)


@program(args=data, open="a class of a library made in the call")
def linen_dropout(x, y):
    class Noisy(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            return nn.Dropout(0.5, deterministic=not train)(nn.Dense(4)(x))

    net = Noisy()
    variables = net.init(jax.random.key(0), x, False)
    print(end="")
    return net.apply(variables, x, True, rngs={"dropout": jax.random.key(1)}) * y
