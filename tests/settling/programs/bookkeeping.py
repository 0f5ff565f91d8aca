"""Python objects around arrays: tables that grow from call to call, generators, tapes, particles, callbacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.settling.kit import program

MEMO: dict[Any, float] = {}


@program(args=lambda i: (jnp.ones(3) * i, i))
def memo_that_grows(x, n):
    key = (n, x.shape[0])
    if key not in MEMO:
        MEMO[key] = n * 0.5
    return x * MEMO[key]


@program(args=lambda i: (np.random.default_rng(i).normal(size=(10 + i % 3, 3)).astype(np.float32), 4))
def generator_pipeline(data, size):
    def batched(rows):
        held = []
        for row in rows:
            held.append(row)
            if len(held) == size:
                yield np.stack(held)
                held = []
        if held:
            yield np.stack(held)

    total, count = jnp.zeros(3), 0
    for batch in batched(iter(data)):
        total, count = total + jnp.tanh(jnp.asarray(batch)).sum(0), count + len(batch)
    return total / count


class Tape:
    """A number that remembers how it was made."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.slope = value, parents, None

    def __mul__(self, other):
        return Tape(self.value * other.value, ((self, lambda g: g * other.value), (other, lambda g: g * self.value)))

    def tanh(self):
        y = jnp.tanh(self.value)
        return Tape(y, ((self, lambda g: g * (1 - y * y)),))

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if id(node) not in seen:
                seen.add(id(node))
                for parent, _ in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.slope = jnp.ones_like(self.value)
        for node in reversed(order):
            for parent, back in node.parents:
                parent.slope = back(node.slope) + (0 if parent.slope is None else parent.slope)


@program(args=lambda i: (jnp.arange(3.0) / (i + 1), jnp.ones(3) * i, 1 + i % 3))
def own_derivatives(a, b, depth):
    x, y = Tape(a), Tape(b)
    z = x
    for _ in range(depth):
        z = (z * y).tanh()
    z.backward()
    return z.value, x.slope, y.slope


@dataclass(frozen=True)
class Body:
    place: Any
    speed: Any
    mass: float = 1.0

    def moved(self, force, dt):
        speed = self.speed + dt * force / self.mass
        return replace(self, place=self.place + dt * speed, speed=speed)


@program(args=lambda i: ([Body(jnp.ones(2) * (i + j), jnp.zeros(2), 1.0 + j + i) for j in range(3)], 0.01 * (i + 1)))
def bodies(given, dt):
    for _ in range(2):
        forces = []
        for a in given:
            force = jnp.zeros(2)
            for b in given:
                if a is not b:
                    d = b.place - a.place
                    force = force + a.mass * b.mass * d / (jnp.sum(d ** 2) + 0.1) ** 1.5
            forces.append(force)
        given = [body.moved(force, dt) for body, force in zip(given, forces)]
    return jnp.stack([body.place for body in given]), sum(body.mass for body in given)


@jax.jit
def scaled(x, k):
    return x * k.astype(x.dtype)


@program(args=lambda i: (jnp.arange(4.0), 0.5 * i))
def jitted_with_numbers(x, k):
    print(end="")
    return scaled(x, k) + scaled(x, 2.0)
