"""What changes between two calls is seen by the second one."""

import jax.numpy as jnp
import pytest

import dynacomp


class Config(dict):
    def __getattr__(self, name):
        return self[name]


class Stack(list):
    pass


class Plain:
    scale = 2.0

    def __init__(self):
        self.names = {"a", "b"}


def _set(obj, value):
    obj["lr"] = value


CASES = {
    "dict subclass": (lambda: Config(lr=0.5), lambda x, c: x * c["lr"], _set),
    "dict subclass attribute": (lambda: Config(lr=0.5), lambda x, c: x * c.lr, _set),
    "list subclass": (lambda: Stack([1.0]), lambda x, s: x * s[0] if s else x, lambda s, v: s.insert(0, v)),
    "truth": (lambda: Stack(), lambda x, s: x * 2 if s else x, lambda s, v: s.append(v)),
    "class attribute": (Plain, lambda x, p: x * p.scale, lambda p, v: setattr(Plain, "scale", v)),
    "set": (Plain, lambda x, p: x * len(p.names), lambda p, v: p.names.add(v)),
    "dict": (lambda: {"lr": 0.5}, lambda x, d: x * d["lr"], _set),
    "new attribute": (Plain, lambda x, p: x * getattr(p, "extra", 1), lambda p, v: setattr(p, "extra", v)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name):
    make, fn, change = CASES[name]
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    x, obj = jnp.arange(3.0), make()
    for value in (3.0, 4.0, 5.0):
        assert compiled(x, obj).tolist() == fn(x, obj).tolist()
        change(obj, value)
        assert compiled(x, obj).tolist() == fn(x, obj).tolist()


def test_printing_a_guard_runs_no_user_code():
    @dynacomp.jit(backend="eager")
    def f(x, config):
        return x + len(config)

    assert f(jnp.ones(2), Config(a=1)).tolist() == [2.0, 2.0]
