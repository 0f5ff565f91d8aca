"""`dynacomp.callers`: compiled partials and library functions made anew find the entries of those before them."""

import doctest
import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import callers

X = jnp.linspace(0.0, 1.0, 5)


def scaled(x, factor, power=2):
    return jnp.sum(jnp.tanh(x) * factor) ** power


class Model:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return x * self.w


MAKERS = {
    "partial": lambda i: functools.partial(scaled, factor=0.5),
    "partial of other numbers": lambda i: functools.partial(scaled, factor=0.5 + i),
    "partial of arrays": lambda i: functools.partial(scaled, factor=X + i),
    "partial of a function made anew": lambda i: functools.partial(lambda x, k: scaled(x, k), k=0.5 + i),
    "partial of a partial": lambda i: functools.partial(functools.partial(scaled, power=3), factor=0.5 + i),
    "partial of a jitted function": lambda i: functools.partial(jax.jit(scaled), factor=0.5 + i),
    "gradient": lambda i: jax.grad(scaled),
    "gradient of a partial": lambda i: jax.grad(functools.partial(scaled, factor=0.5 + i)),
    "gradient of a closure": lambda i: jax.value_and_grad(lambda x: scaled(x, 0.5 + i)),
}


def test_doctest():
    assert doctest.testmod(callers).failed == 0


@pytest.mark.parametrize("kind", MAKERS)
def test_made_anew(kind):
    dynacomp.reset()
    seen = []
    for i in range(10):
        made = MAKERS[kind](i)
        args = (X + i, 2.0) if kind == "gradient" else (X + i,)
        want, got = made(*args), dynacomp.jit(made, backend="eager")(*args)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), want, got)
        seen.append(dynacomp.stats()["frames_captured"])
    assert seen[3] == seen[-1] and seen[-1] <= 3, seen
    assert not dynacomp.stats()["frames_eager"] and dynacomp.stats()["graphs"] >= 1


def test_side_by_side_they_have_code_of_their_own():
    dynacomp.reset()
    made = [dynacomp.jit(functools.partial(scaled, factor=1.0, power=n), backend="eager") for n in range(12)]
    for _ in range(3):
        for n, f in enumerate(made):
            np.testing.assert_allclose(f(X), scaled(X, 1.0, n), rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] == 12 and not dynacomp.stats()["breaks"]


def test_another_function_is_another_entry():
    dynacomp.reset()
    fns = [lambda x, k: x + k, lambda x, k: x * k]
    for i in range(8):
        made = functools.partial(fns[i % 2], k=2.0)
        np.testing.assert_allclose(dynacomp.jit(made, backend="eager")(X), made(X))
    assert dynacomp.stats()["frames_captured"] == 2


def test_one_object_compiled_again():
    dynacomp.reset()
    model = Model(X)
    for i in range(6):
        model.w = X + i
        np.testing.assert_allclose(dynacomp.jit(model, backend="eager")(X), X * (X + i))
    assert dynacomp.stats()["frames_captured"] == 1


def test_nothing_is_kept_alive():
    model, w = Model(X), X + 1
    made = functools.partial(lambda x, w: x * w, w=w)
    for fn in (model, made):
        dynacomp.jit(fn, backend="eager")(X)
        dynacomp.jit(fn, backend="eager")(X)
    gone = weakref.ref(model), weakref.ref(made.func), weakref.ref(w)
    del model, made, w, fn
    gc.collect()
    assert [g() for g in gone] == [None] * 3


def test_notices_name_the_programs_function():
    def loss(x):
        return (x * x).sum()

    owners = [dynacomp.jit(fn) for fn in (jax.grad(loss), functools.partial(jax.grad(functools.partial(loss))))]
    for compiled in owners:
        code = getattr(compiled, "_compiled", compiled).__wrapped__.__code__
        assert code is not loss.__code__ and callers.shown(code) is loss.__code__
    assert callers.shown(loss.__code__) is loss.__code__
