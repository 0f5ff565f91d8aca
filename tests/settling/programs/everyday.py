"""Loops as they are written every day: early stopping, settings in dicts, states in records, adaptive steps."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.settling.kit import program, vector


def numbered(i: int) -> tuple[Any, ...]:
    return *vector(i), i


def parameters() -> dict[str, Any]:
    return {"w": jnp.ones((3, 4)) * 0.1, "b": jnp.zeros(4), "out": jnp.ones((4, 1)) * 0.2}


def layers(p, x):
    return jnp.tanh(x @ p["w"] + p["b"]) @ p["out"]


@program(args=lambda i: (jnp.arange(3.0 + i), dict.fromkeys(["stop", "a", f"k{i}"][:1 + i % 3], i)))
def generator_over_changing_keys(x, table):
    def parts():
        for name, k in sorted(table.items()):
            try:
                yield name, x * k
            finally:
                seen.append(name)

    seen, total = [], 0.0
    for name, part in parts():
        total = total + jax.vmap(lambda r: r + len(name))(part).sum()
        if name == "stop":
            break
    return total, seen


@program(args=numbered)
def early_stopping(x, i):
    p, best, bad, history = parameters(), float("inf"), 0, []
    for _ in range(6):
        loss, g = jax.value_and_grad(lambda p: jnp.mean((layers(p, x.reshape(2, 3)) - i) ** 2))(p)
        p = jax.tree.map(lambda a, b: a - 0.1 * b, p, g)
        history.append(float(loss))
        bad = 0 if history[-1] < best - 1e-3 else bad + 1
        best = min(best, history[-1])
        if bad > 1:
            break
    return history, best


@dataclasses.dataclass
class Training:
    p: dict[str, Any]
    step: int = 0
    rate: float = 0.1


@program(args=numbered)
def state_in_a_dataclass(x, i):
    s = Training(parameters(), rate=0.1 / (i + 1))
    for _ in range(3):
        g = jax.grad(lambda p: jnp.mean(layers(p, x.reshape(2, 3)) ** 2))(s.p)
        s = dataclasses.replace(s, p=jax.tree.map(lambda a, b: a - s.rate * b, s.p, g), step=s.step + 1)
    return s.step, s.p["out"]


class Motion(NamedTuple):
    x: Any
    v: Any
    t: int


@program(args=numbered)
def leapfrog(x, i):
    s = Motion(x, jnp.ones_like(x), 0)
    while s.t < 4:
        v = s.v - 0.05 * jax.grad(lambda q: (q ** 2).sum() + i * q.sum())(s.x)
        s = s._replace(x=s.x + 0.1 * v, v=v, t=s.t + 1)
    return s


@program(args=numbered)
def settings_in_a_dict(x, i):
    cfg = {"rate": 0.1 * (i + 1), "act": ["tanh", "relu"][i % 2], "layers": [4, 4], "seed": i}
    act = {"tanh": jnp.tanh, "relu": jax.nn.relu}[cfg["act"]]
    key, y = jax.random.key(cfg["seed"]), x
    for n in cfg["layers"]:
        key, sub = jax.random.split(key)
        y = act(y @ jax.random.normal(sub, (y.shape[0], n)))
    return y * cfg["rate"]


@program(args=numbered)
def warmup_and_cosine(x, i):
    def rate(s):
        return 0.1 * s / 3 if s < 3 else 0.05 * (1 + math.cos(math.pi * (s - 3) / (5 + i)))

    for s in range(6):
        x = x - rate(s) * jax.grad(lambda w: (w ** 2).sum())(x)
    return x


@program(args=numbered)
def metrics_by_name(x, i):
    found = collections.defaultdict(list)
    for s in range(4):
        loss, g = jax.value_and_grad(lambda w: jnp.mean((w - i) ** 2))(x)
        x = x - 0.2 * g
        found["loss"].append(loss)
        found[f"step{s % 2}"].append(s)
    return {name: (len(v), v[-1]) for name, v in found.items()}


@program(args=numbered)
def gradients_summed(x, i):
    total = None
    for j in range(1 + i % 4):
        g = jax.grad(lambda w: (w * x).sum() ** 2)(x + j)
        total = g if total is None else jax.tree.map(jnp.add, total, g)
    return total / (1 + i % 4)


@program(args=numbered)
def padded_to_the_longest(x, i):
    rows = [list(range(1, 2 + (i + j) % 5)) for j in range(3)]
    a = np.zeros((3, max(map(len, rows))), np.int32)
    for j, row in enumerate(rows):
        a[j, :len(row)] = row
    mask = jnp.asarray(a > 0)
    return (jnp.take(x, jnp.asarray(a) % 6) * mask).sum(1) / mask.sum(1)


@program(args=numbered)
def functions_by_name(x, i):
    known = {}

    def register(name):
        def decorate(f):
            known[name] = f
            return f
        return decorate

    register("scaled")(lambda y: y * i)
    register("sine")(jnp.sin)
    return sum(f(x) for f in known.values())
