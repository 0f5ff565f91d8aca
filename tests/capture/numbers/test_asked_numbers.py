"""Changing numbers that a library asks something while it is traced: a guard for each answer, not for each number."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

nn = pytest.importorskip("flax.linen")
X, KEY = jnp.arange(6.0).reshape(2, 3), jax.random.key(0)
RATES = (0.1, 0.2, 0.0, 0.35, 0.8, 0.45, 0.0, 0.9, 0.15, 0.6, 0.5, 0.3)


class Gated(nn.Module):
    rate: float

    @nn.compact
    def __call__(self, x, train=True):
        h = nn.Dense(3)(x)
        if 1.0 - self.rate < 0.3:
            h = jnp.sin(h)
        return nn.Dropout(self.rate, deterministic=not train)(h) * (1 - self.rate)


class Ordered(nn.Module):
    @nn.compact
    def __call__(self, x, a, b):
        return nn.Dense(2)(x) * a if a < b else nn.Dense(2)(x) + b


VARIABLES, ORDERED = Gated(0.1).init(KEY, X, False), Ordered().init(KEY, X, 0.1, 0.2)


def plain(rate, key):
    return Gated(rate).apply(VARIABLES, X, rngs={"dropout": key})


def gradient(rate, key):
    return jax.value_and_grad(lambda p: Gated(rate).apply(p, X, rngs={"dropout": key}).sum())(VARIABLES)


def mapped(rate, key):
    return jax.vmap(lambda x: Gated(rate).apply(VARIABLES, x, False))(X)


def in_a_scan(rate, key):
    return jax.lax.scan(lambda c, x: (c + Gated(rate).apply(VARIABLES, x[None], False).sum(), c), 0.0, X)


def of_other_sizes(rate, key):
    return Gated(rate).apply(VARIABLES, jnp.ones((2 + int(rate * 10) % 4, 3)), False)


def two_numbers(rate, key):
    return Ordered().apply(ORDERED, X, rate, 0.4 - rate)


def agrees(fn, backend):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend=backend)
    for k, rate in enumerate(RATES):
        want, got = (f(rate, jax.random.key(k)) for f in (fn, compiled))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), want, got)
    return dynacomp.stats()


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", [plain, gradient, mapped, in_a_scan, of_other_sizes, two_numbers],
                         ids=lambda f: f.__name__)
def test_a_capture_for_each_answer(fn, backend):
    """A constant, the first time; then the rates between the bounds, those beyond them, and zero."""
    stats = agrees(fn, backend)
    assert stats["frames_captured"] <= 5
    assert not stats["frames_eager"] and not stats["breaks"]


def by(y, f, rate, key):
    return f(rate, key).sum() * y


@pytest.mark.parametrize("how", [jax.grad, jax.hessian, jax.vmap], ids=lambda f: f.__name__)
def test_from_outside(how):
    """JAX's transformations of a compiled function trace its Graph again: with other tracers."""
    dynacomp.reset()
    compiled, y = dynacomp.jit(plain), jnp.full(2, 2.0) if how is jax.vmap else 2.0
    for k, rate in enumerate(RATES):
        want, got = (how(functools.partial(by, f=f, rate=rate, key=jax.random.key(k)))(y) for f in (plain, compiled))
        np.testing.assert_allclose(want, got, rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= 6
    assert not dynacomp.stats()["frames_eager"]


class Refusing(nn.Module):
    rate: float

    @nn.compact
    def __call__(self, x):
        if self.rate > 0.5:
            raise ValueError(f"too large: {self.rate}")
        return nn.Dense(2)(x) * self.rate


def test_what_an_answer_makes_a_library_raise():
    compiled = dynacomp.jit(lambda rate: Refusing(rate).init(KEY, X))
    for rate in RATES:
        if rate > 0.5:
            with pytest.raises(ValueError, match=f"too large: {rate}"):
                compiled(rate)
        else:
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
                         compiled(rate), Refusing(rate).init(KEY, X))
