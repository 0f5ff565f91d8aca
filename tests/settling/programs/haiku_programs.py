"""Haiku: functions transformed in the call."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from tests.settling.kit import program


def data(i: int) -> tuple[Any, ...]:
    return jax.random.normal(jax.random.key(i), (4, 3)), jnp.ones((4, 1)) * i


@program(args=data)
def transformed(x, y):
    net = hk.without_apply_rng(hk.transform(lambda z: hk.nets.MLP([8, 1])(z)))
    params = net.init(jax.random.PRNGKey(0), x)
    tx = optax.adam(1e-2)
    opt = tx.init(params)
    for _ in range(2):
        grads = jax.grad(lambda p: jnp.mean((net.apply(p, x) - y) ** 2))(params)
        updates, opt = tx.update(grads, opt)
        params = optax.apply_updates(params, updates)
        print(end="")
    return params


@program(args=data)
def with_state(x, y):
    def forward(z, training):
        return hk.BatchNorm(True, True, 0.9)(hk.Linear(4)(z), training)

    net = hk.transform_with_state(forward)
    params, state = net.init(jax.random.PRNGKey(0), x, True)
    print(end="")
    out, state = net.apply(params, state, None, x, True)
    return out * y, state
