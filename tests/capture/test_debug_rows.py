"""`jax.debug.print` keeps the graph whole, and what is printed in its order."""

import warnings

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import debug_rows, frame


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


@pytest.mark.parametrize("fn, breaks", [(twice, {}), (in_turn, {"effect": 2}), (conditional, {"branch": 1})])
def test_prints_in_order(fn, breaks, capsys):
    assert printed(dynacomp.jit(fn, backend="eager"), capsys) == printed(fn, capsys) != ""
    assert dynacomp.stats()["breaks"] == breaks


class Held:
    def __init__(self, v):
        self.v = v

    @property
    def value(self):
        warnings.warn("use .v", DeprecationWarning, stacklevel=2)
        return self.v


def warned(held, x):
    y = x * held.value
    if x.shape[0] > 2:
        warnings.warn("long", stacklevel=1)
    return y + held.value


def differentiated(held, x):
    return jax.grad(lambda v: (Held(v).value ** 2).sum() * held.value)(x)


def heard(fn, action, monkeypatch):
    """The warnings that two calls give, and where."""
    globals()["__warningregistry__"], said = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **_: said.append((str(args[0]), *args[1:4])))
        monkeypatch.setattr(debug_rows, "WAYS", {name: getattr(warnings, name) for name in debug_rows.WAYS})
        for _ in range(2):
            fn(Held(2.0), jnp.ones(3))
    return said


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
@pytest.mark.parametrize("fn", [warned, differentiated])
def test_warnings_are_given_where_python_gives_them(fn, action, monkeypatch):
    want = heard(fn, action, monkeypatch)
    got = heard(dynacomp.jit(fn, backend="eager"), action, monkeypatch)
    assert got == want
    assert bool(got) == (action != "ignore")
    assert dynacomp.stats()["breaks"] == {}


def test_warnings_that_are_recorded_or_raised_are_pythons():
    def recorded(held, x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = x * held.value
        return y, len(found)

    assert dynacomp.jit(recorded, backend="eager")(Held(2.0), jnp.ones(3))[1] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            dynacomp.jit(warned, backend="eager")(Held(2.0), jnp.ones(3))
