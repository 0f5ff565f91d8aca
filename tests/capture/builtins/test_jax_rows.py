"""`jax.debug.print` keeps the graph whole, and what is printed in its order."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import frame


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    dynacomp.reset()


def twice(x):
    jax.debug.print("x = {x}", x=x.sum())
    y = jnp.sin(x) * 2
    jax.debug.print("y = {}", y[0])
    return y


def in_turn(x):
    print("before")
    jax.debug.print("x = {}", x.sum())
    print("after")
    return x * 2


def conditional(x):
    if x.sum() > 0:
        jax.debug.print("positive {}", x[0])
    return x + 1


def printed(fn, capsys):
    for x in (jnp.ones(3), -jnp.ones(3)):
        fn(x)
    jax.effects_barrier()
    return capsys.readouterr().out


@pytest.mark.parametrize("fn, breaks", [(twice, {}), (in_turn, {"effect": 2}), (conditional, {})])
def test_prints_in_order(fn, breaks, capsys):
    assert printed(dynacomp.jit(fn, backend="eager"), capsys) == printed(fn, capsys) != ""
    assert dynacomp.stats()["breaks"] == breaks
