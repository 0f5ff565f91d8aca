"""The loops that `regions.py --loops` measures: small states that many steps change, and their gradients.

To add one, write a function and a row of `LOOPS`. `jax.jit` unrolls the Python `while`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from region_table import Draw, Region, drawn, total_grad


def kalman(seen, motion, sensor, noise, error):
    """A filter of three states and one measured value, 10,000 steps."""

    def step(state: Any, y: Any) -> Any:
        mean, cov = state
        mean, cov = motion @ mean, motion @ cov @ motion.T + noise
        gain = cov @ sensor / (sensor @ cov @ sensor + error)
        mean, cov = mean + gain * (y - sensor @ mean), cov - jnp.outer(gain, sensor @ cov)
        return (mean, cov), mean

    return lax.scan(step, (jnp.zeros(3), jnp.eye(3)), seen)


def newton(x):
    more = lambda s: (jnp.abs(s[0] * s[0] - x) > 1e-6 * x) & (s[1] < 100)
    return lax.while_loop(more, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0))[0]


def newton_fixed(x):
    """As one writes it to differentiate it."""
    return lax.fori_loop(0, 40, lambda i, y: 0.5 * (y + x / y), x)


def leapfrog(place, speed):
    """A planet's orbit, 1,000 steps."""
    force = lambda q: -q / jnp.sum(q * q) ** 1.5

    def step(state: Any, _: Any) -> Any:
        q, p = state
        p = p + 0.005 * force(q)
        q = q + 0.01 * p
        return (q, p + 0.005 * force(q)), q

    return lax.scan(step, (place, speed), None, length=1000)


def lstm(x, h, c, inputs, states, bias):
    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row @ inputs + h @ states + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), x)[1]


def thomas(lower, middle, upper, right):
    """Tridiagonal systems of 200 unknowns, 256 at once."""

    def down(state: Any, row: Any) -> Any:
        (p, q), (a, b, c, d) = state, row
        over = 1 / (b - a * p)
        new = (c * over, (d - a * q) * over)
        return new, new

    zero = jnp.zeros_like(right[0])
    _, swept = lax.scan(down, (zero, zero), (lower, middle, upper, right))
    back = lambda x, r: ((y := r[1] - r[0] * x), y)
    return lax.scan(back, zero, swept, reverse=True)[1]


def python_while(x):
    y, i = x, 0
    while i < 300:
        y, i = y + 0.01 * jnp.sin(y) * i, i + 1
    return y


def filled(x):
    """An array made element by element."""
    return lax.fori_loop(1, x.shape[0], lambda i, y: y.at[i].set(y[i - 1] * 0.5 + x[i]), jnp.zeros_like(x))


def measured(d: Draw) -> tuple:
    motion = jnp.array([[1, 0.1, 0.005], [0, 1, 0.1], [0, 0, 1]], jnp.float32)
    return d(10_000), motion, jnp.array([1.0, 0, 0]), jnp.eye(3) * 0.01, jnp.float32(0.1)


def cells(d: Draw) -> tuple:
    return d(256, 8, 64), jnp.zeros((8, 64)), jnp.zeros((8, 64)), d(64, 256) * 0.1, d(64, 256) * 0.1, d(256)


def systems(d: Draw) -> tuple:
    return d(200, 256) * 0.1, d(200, 256) * 0.1 + 2, d(200, 256) * 0.1, d(200, 256)


def orbit(d: Draw) -> tuple:
    return jnp.array([1.0, 0, 0]), jnp.array([0, 1.0, 0])


def last(fn: Any) -> Any:
    """The last state alone."""
    return lambda *args: fn(*args)[0][0]


LOOPS = {r.name: r for r in (
    Region("kalman, 10,000 steps", kalman, drawn(measured)),
    Region("kalman, grad", total_grad(last(kalman), (1, 3)), drawn(measured)),
    Region("newton", newton, lambda: (jnp.float32(1e6),)),
    Region("newton, grad", total_grad(newton_fixed), lambda: (jnp.float32(10),)),
    Region("leapfrog, 1,000 steps", leapfrog, drawn(orbit)),
    Region("leapfrog, grad", total_grad(last(leapfrog), (0, 1)), drawn(orbit)),
    Region("lstm, 256 steps", lstm, drawn(cells)),
    Region("lstm, grad", total_grad(lstm, (3, 4, 5)), drawn(cells)),
    Region("thomas, 256 systems", thomas, drawn(systems)),
    Region("thomas, grad", total_grad(thomas, (0, 1, 2, 3)), drawn(systems)),
    Region("python while, 300 steps", python_while, drawn(lambda d: (d(8),))),
    Region("array filled in a loop", filled, drawn(lambda d: (d(10_000),))),
)}
