"""Functions, closures, partials, classes and dataclasses made in the call; compiled functions made in the call."""

from __future__ import annotations

import functools
from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp
from tests.settling.kit import CLASSES, program

T = TypeVar("T")


def two(i: int) -> tuple[Any, ...]:
    return jnp.arange(6, dtype=jnp.float32) / (i + 1), 0.1 * (i + 1)


def scaled(x, factor, power=2):
    return jnp.sum(jnp.tanh(x) * factor) ** power


@program(args=two)
def partial_compiled(x, k):
    f = dynacomp.jit(functools.partial(scaled, factor=k))
    return f(x) + f(x + 1)


@program(args=two)
def lambda_compiled(x, k):
    f = dynacomp.jit(lambda y: jnp.sin(y) * k)
    print(end="")
    return f(x) + f(x + 1)


@program(args=two)
def partial_jitted(x, k):
    f = jax.jit(functools.partial(scaled, factor=k))
    print(end="")
    return f(x) + f(x + 1)


@program(args=two)
def jitted_with_static(x, k):
    f = jax.jit(scaled, static_argnames="power")
    print(end="")
    return f(x, k, power=3)


def meta_loss(w, task):
    return jnp.mean((jnp.sin(task[0] * w) - task[1]) ** 2)


@program(args=lambda i: (jnp.full(4, 0.5), [(jnp.arange(4.0) + i, jnp.ones(4) * j) for j in range(3)], 0.01 * (i + 1)))
def meta_learner(w, tasks, rate):
    def adapted(w, task):
        inner = dynacomp.jit(functools.partial(jax.grad(meta_loss), task=task))
        for _ in range(2):
            w = w - rate * inner(w)
        return w

    total = jnp.zeros_like(w)
    for task in tasks:
        print(end="")
        total = total + jax.grad(lambda w: meta_loss(adapted(w, task), task))(w)
    return w - rate * total


@program(args=two, open=CLASSES)
def dataclass_made(x, k):
    @dataclass(frozen=True)
    class Setting:
        rate: float
        power: int = 2

    s = replace(Setting(k), power=3)
    print(end="")
    return s.rate * jnp.sum(x ** s.power)


@program(args=two, open=CLASSES)
def class_made(x, k):
    class Layer:
        scale = 2.0

        def __init__(self, w):
            self.w = w

        def __call__(self, y):
            return jnp.tanh(y * self.w) * self.scale

    layers = [Layer(k), Layer(k + 1)]
    print(end="")
    for layer in layers:
        x = layer(x)
    return x


@program(args=two, open=CLASSES)
def generic_class_made(x, k):
    class Box(Generic[T]):
        def __init__(self, inner: T) -> None:
            self.inner = inner

        def map(self, f):
            return Box(f(self.inner))

    print(end="")
    return Box(x).map(jnp.sin).map(lambda y: y * k).inner


@program(args=two, open=CLASSES)
def named_tuple_made(x, k):
    State = namedtuple("State", "x count")
    s = State(x, 0)
    for _ in range(3):
        s = s._replace(x=jnp.cos(s.x) * k, count=s.count + 1)
    print(s.count)
    return s.x


class Carry(NamedTuple):
    x: Any
    count: int


@program(args=two)
def scan_over_closure(x, k):
    def body(carry, t):
        return Carry(carry.x * k + t, carry.count + 1), jnp.sum(carry.x)

    print(end="")
    last, sums = jax.lax.scan(body, Carry(x, 0), jnp.arange(4.0))
    return last.x, sums


@program(args=two)
def decorator_made(x, k):
    def logged(f):
        seen = []

        @functools.wraps(f)
        def call(*args):
            seen.append(f.__name__)
            return f(*args)

        call.seen = seen
        return call

    @logged
    def square(y):
        return y * y * k

    y = square(square(x))
    print(len(square.seen))
    return y


@program(args=two)
def memo_made(x, k):
    @functools.cache
    def factor(n):
        return k if n < 2 else factor(n - 1) * 0.5 + factor(n - 2)

    print(end="")
    return jnp.sum(x * factor(6))


@program(args=two)
def custom_vjp_made(x, k):
    @jax.custom_vjp
    def clipped(y):
        return y

    clipped.defvjp(lambda y: (y, None), lambda _, g: (jnp.clip(g, -k, k),))
    print(end="")
    return jax.grad(lambda y: jnp.sum(clipped(y) ** 3))(x)


@program(args=two, open=CLASSES)
def method_replaced(x, k):
    class Model:
        def __call__(self, y):
            return y * 2

    m = Model()
    m.forward = lambda y: m(y) * k
    print(end="")
    return m.forward(x)


@program(args=two)
def pipeline_of_functions(x, k):
    stages = [jnp.sin, lambda y: y * k, functools.partial(jnp.clip, min=-0.5, max=0.5), jax.nn.relu]
    for stage in stages:
        x = stage(x)
        print(end="")
    return functools.reduce(lambda a, f: f(a), stages, x)


@program(args=two)
def iterators_after_breaks(x, k):
    total = x * 0
    for n in range(3):
        print(n)
        total = total + x * n
    for n, y in enumerate([x, x + 1]):
        print(n)
        total = total + y
    pending = iter([1.0, 2.0, k])
    for c in pending:
        print(end="")
        total = total * c
    return total


@program(args=two)
def numpy_state(x, k):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=6).astype(np.float32)
    return jnp.sum(x * noise * k)
