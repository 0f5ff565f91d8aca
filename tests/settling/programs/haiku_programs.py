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


@program(args=lambda i: (2 + i % 3, *data(i)))
def of_changing_width(width, x, y):
    """What the function is made around changes, and what it is made into goes over a break."""
    net = hk.transform(lambda z, rate: hk.dropout(hk.next_rng_key(), rate, hk.nets.MLP([width, 1])(z)))
    params = net.init(jax.random.PRNGKey(0), x, 0.1)
    print(width)
    grads = jax.grad(lambda p: jnp.mean((net.apply(p, jax.random.PRNGKey(1), x, 0.1) - y) ** 2))(params)
    print(sorted(grads))
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
