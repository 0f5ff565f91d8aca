"""Equinox: models partitioned, filtered and compiled in the call; Diffrax and Optimistix solvers made there."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import optimistix

from tests.settling.kit import CLASSES, program


def model_and_data(i: int) -> tuple[Any, ...]:
    k = jax.random.split(jax.random.key(i), 2)
    return eqx.nn.MLP(3, 1, 8, 2, key=k[0]), jax.random.normal(k[1], (5, 3))


@program(args=model_and_data)
def filter_grad(model, x):
    params, static = eqx.partition(model, eqx.is_array)
    loss = lambda p: jnp.mean(jax.vmap(eqx.combine(p, static))(x) ** 2)  # noqa: E731
    print(end="")
    grads = eqx.filter_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(model)
    return jax.grad(loss)(params), eqx.filter(grads, eqx.is_array)


@program(args=model_and_data)
def training_loop(model, x):
    tx = optax.adam(1e-2)
    opt = tx.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, opt, x):
        value, grads = eqx.filter_value_and_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(model)
        updates, opt = tx.update(grads, opt, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), opt, value

    for n in range(2):
        model, opt, value = step(model, opt, x)
        print(n)
    return eqx.filter(model, eqx.is_array), value


@program(args=lambda i: (jax.random.key(i), jnp.ones((4, 3)) * i), open=CLASSES)
def module_made(key, x):
    class Block(eqx.Module):
        linear: eqx.nn.Linear
        scale: jax.Array

        def __init__(self, key):
            self.linear, self.scale = eqx.nn.Linear(3, 3, key=key), jnp.ones(3)

        def __call__(self, y):
            return y + self.scale * jax.nn.gelu(self.linear(y))

    blocks = [Block(k) for k in jax.random.split(key, 2)]
    print(end="")
    for b in blocks:
        x = jax.vmap(b)(x)
    return x


@program(args=model_and_data)
def surgery(model, x):
    model = eqx.tree_at(lambda m: m.layers[-1].weight, model, replace_fn=lambda w: w * 2)
    print(end="")
    frozen = jax.tree.map(lambda _: False, model)
    frozen = eqx.tree_at(lambda m: m.layers[0].bias, frozen, True)
    train, rest = eqx.partition(model, frozen)
    return eqx.filter(jax.grad(lambda t: jnp.mean(jax.vmap(eqx.combine(t, rest))(x) ** 2))(train), eqx.is_array)


@program(args=lambda i: (jnp.ones(2) * (i + 1), 0.5 + 0.1 * i))
def ode(y0, rate):
    term = diffrax.ODETerm(lambda t, y, args: -rate * y)
    print(end="")
    solution = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y0, saveat=diffrax.SaveAt(ts=jnp.linspace(
        0, 1, 3)), stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5))
    return solution.ys


@program(args=lambda i: (jnp.ones(2) * (i + 1), 0.5 + 0.1 * i))
def root(y0, a):
    print(end="")
    found = optimistix.root_find(lambda y, args: y ** 3 - a * y - 1.0, optimistix.Newton(1e-5, 1e-5), y0, throw=False)
    return found.value
