"""Compiled functions called by compiled code are part of it: functions, methods, models, donation and all."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

jit = functools.partial(dynacomp.jit, backend="eager")
X = jnp.arange(4.0)


@jit
def helper(a, k=2):
    return a * k


@functools.partial(jit, donate_argnums=0)
def donating(a):
    return a + 1


class Model:
    def __init__(self):
        self.w = jnp.ones(4)

    def __call__(self, a):
        return a * self.w

    @jit
    def method(self, a):
        return a + self.w

    @staticmethod
    @jit
    def static(a):
        return a - 1

    @classmethod
    def make(cls):
        return cls()


MODEL = Model()
COMPILED = jit(MODEL)

CALLERS = {
    "function": lambda a: helper(a) + helper(a, k=3),
    "donating": lambda a: donating(a * 2),
    "method": lambda a: MODEL.method(a) + Model.make().method(a),
    "static": lambda a: Model.static(a) + MODEL.static(a),
    "model": lambda a: COMPILED(a) + COMPILED.w,
    "argument": lambda a: functools.reduce(lambda v, f: f(v), [helper, helper], a),
    "mapped": lambda a: jax.tree.map(helper, {"a": a}),
    "differentiated": lambda a: jax.grad(lambda v: helper(v).sum())(a),
    "of jax": lambda a: jax.jit(helper)(a),
}


@pytest.mark.parametrize("fn", CALLERS.values(), ids=CALLERS)
def test_one_graph(fn):
    dynacomp.reset()
    got, want = jit(fn)(X), fn(X)
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert dynacomp.stats()["breaks"] == {}


def test_what_is_inside_is_guarded(monkeypatch):
    @jit
    def inner(a):
        return a * 2

    @jit
    def outer(a):
        return inner(a) + 1

    assert outer(X)[3] == 7
    inner.__wrapped__.__code__ = (lambda a: a * 3).__code__
    assert outer(X)[3] == 10
    inner = jit(lambda a: a * 4)
    assert outer(X)[3] == 13


class Count(NamedTuple):
    x: jax.Array
    n: int


@jax.jit
def counted(state, x):
    return Count(state.x + x, state.n + 1), {"half": 0.5, "flag": True, "np": np.ones(2), "none": None}


class Trainer:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, state, x):
        return counted(state, x)[0]


def own_class(x):
    return Trainer().step(Count(x, 0), x)


def made_in_the_call(x):
    step = jax.jit(lambda state, x: Count(state.x + x, state.n + 1))
    print(end="")
    return step(step(Count(x, 0), x), x)


@pytest.mark.parametrize("program", [lambda x: counted(Count(x, 3), x), own_class, made_in_the_call])
def test_numbers_that_a_jitted_function_returns_are_arrays(program):
    """As they are where Python calls it: programs ask them for `dtype` and `item()`."""
    dynacomp.reset()
    want, made = program(X), jit(program)
    for _ in range(8):
        got = made(X)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            assert isinstance(b, jax.Array) and (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
            np.testing.assert_array_equal(a, b)
    assert dynacomp.stats()["graphs"] >= 1 and not dynacomp.stats()["frames_eager"]
    assert dynacomp.stats()["frames_captured"] <= 4


@jax.jit
def told_apart(x, k):
    return x * k.astype(x.dtype), isinstance(k, float), k.ndim


@functools.partial(jax.jit, static_argnames="n")
def with_static(x, state, n, *, mu=0.5):
    assert isinstance(n, int) and isinstance(mu, float)  # static, and not given
    return x.reshape(n, -1) * state["rate"].astype(x.dtype), [s.dtype == jnp.int32 for s in state["sizes"]]


@functools.partial(jax.jit, static_argnums=(-1,))
def last_static(k, n):
    return [k * k] * n  # in 32 bits


TAKES = {
    "a number": lambda x, k: told_apart(x, k),
    "in a tree": lambda x, k: with_static(x, {"rate": k, "sizes": (1, 2)}, 2),
    "32 bits": lambda x, k: last_static(int(70000 + 10 * k), 2),
    "NumPy": lambda x, k: jax.jit(lambda a, b: a.at[0].set(b.astype(int)))(np.arange(3), k),
    "by name": lambda x, k: told_apart(k=k, x=x),
}


@pytest.mark.parametrize("program", TAKES.values(), ids=TAKES.keys())
def test_numbers_that_a_jitted_function_takes_are_arrays(program):
    """Its body may tell them apart from numbers; those that are static, or defaults, stay numbers."""
    dynacomp.reset()
    made = jit(program)
    for k in (0.5, 1.5, 2.0, 3.5, 0.5, 4.0, 5.5):
        want, got = program(X, k), made(X, k)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            assert isinstance(b, jax.Array) and (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
            np.testing.assert_array_equal(a, b)
    stats = dynacomp.stats()
    assert (stats["frames_eager"], stats["breaks"]) == ({}, {}) and stats["frames_captured"] <= 3
