"""One entry serves only calls whose arguments share as much as those it was made for."""

import jax.numpy as jnp
import pytest

import dynacomp


class Box:
    def __init__(self, value):
        self.value = value


def lists(x, a, b):
    a.append(x.sum())
    b.append(len(a))
    return a is b, a, b


def dicts(x, a, b):
    a["k"] = x * 2
    b["n"] = len(b)
    return a == b


def boxes(x, a, b):
    a.value = a.value + 1
    return x * b.value


def arrays(x, a, b):
    return a is b, a + b


def sets(x, a, b):
    a.add(5)
    return x * len(b), list(b)


CASES = [(lists, list), (dicts, dict), (boxes, lambda: Box(1)), (arrays, lambda: jnp.ones(3)), (sets, lambda: {1, 2})]


def shown(value):
    if isinstance(value, Box):
        return vars(value)
    return [shown(v) for v in value] if isinstance(value, (list, tuple)) else str(value)


@pytest.mark.parametrize("fn,make", CASES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("order", [(True, False), (False, True), (True, True), (False, False)])
def test_shared_and_separate_arguments(fn, make, order):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    x = jnp.arange(3.0)
    for shared in order:
        results = []
        for f in (fn, compiled):
            a = make()
            b = a if shared else make()
            results.append(shown([f(x, a, b), a, b]))
        assert results[0] == results[1]
    assert dynacomp.stats()["frames_eager"] == {}


def test_a_result_keeps_its_shared_parts():
    @dynacomp.jit(backend="eager")
    def f(x):
        inner = [x + 1]
        return {"a": inner, "b": inner}, inner

    found, inner = f(jnp.ones(2))
    assert found["a"] is found["b"] is inner
