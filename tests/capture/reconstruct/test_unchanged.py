"""What a call leaves as it was needs no side effect; whatever differs is written, call after call."""

import threading

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import _native


class Layer:
    def __init__(self, built=True):
        self.built, self.stack, self.seen, self.other = built, [], set(), None


def flagged(layer, x):
    if layer.built is None:
        layer.other = "new"
    layer.built = True
    return x * 2


def pushed(layer, x):
    layer.stack.append(x)
    y = layer.stack[-1] + 1
    layer.stack.pop()
    return y


def discarded(layer, x):
    layer.seen.discard("now")
    return x + len(layer.seen)


def put_back(layer, x):
    before, layer.other = layer.other, x
    y = layer.other + 1
    layer.other = before
    return y


def state(layer):
    return layer.built, list(layer.stack), set(layer.seen), layer.other


@pytest.mark.parametrize("fn", [flagged, pushed, discarded, put_back])
def test_no_replacement_code_for_what_is_as_it_was(fn):
    compiled, plain, ours = dynacomp.jit(fn), Layer(), Layer()
    before = dynacomp.stats()["frames_captured"]
    for n in range(10):
        x = jnp.arange(4.0) + n
        assert (compiled(ours, x) == fn(plain, x)).all() and state(ours) == state(plain)
    (entry,) = _native.entries(fn.__code__)
    assert entry.fn_code is None and dynacomp.stats()["frames_captured"] == before + 1


@pytest.mark.parametrize("built", [False, 1, 1.0, None])
def test_an_attribute_that_differs_is_written(built):
    """After a call where it was the same, and before one: the guards tell them apart."""
    def fn(layer, x):
        if layer.built is None:
            layer.other = "new"
        layer.built = True
        return x * 2

    compiled, x = dynacomp.jit(fn), jnp.arange(4.0)
    for value in (True, built, True, built):
        plain, ours = Layer(value), Layer(value)
        fn(plain, x), compiled(ours, x)
        assert state(ours) == state(plain) and type(ours.built) is bool


def test_an_attribute_that_nobody_read_is_written():
    def fn(layer, x):
        layer.other = 3
        return x * 2

    compiled, x = dynacomp.jit(fn), jnp.arange(4.0)
    for before in (3, 4, 3, None, 3):
        layer = Layer()
        layer.other = before
        compiled(layer, x)
        assert layer.other == 3


def test_two_names_of_one_object():
    """What is put back in the end has been something else meanwhile: for another object only."""
    def fn(a, b, x):
        was = a.built
        a.built = not was
        y = x + (1 if b.built else 2)
        a.built = was
        return y

    compiled, x, a, b = dynacomp.jit(fn), jnp.arange(4.0), Layer(), Layer()
    for pair in ((a, b), (a, a), (b, a), (b, b)):
        assert (compiled(*pair, x) == fn(*pair, x)).all() and a.built is b.built is True


@pytest.mark.parametrize("change", ["order", "grown", "other"])
def test_containers_that_differ_are_written(change):
    def fn(layer, x):
        first = layer.stack.pop()
        layer.stack.insert(0, first)
        if change == "grown":
            layer.stack.append(4), layer.seen.add(4)
        if change == "other":
            layer.seen.discard(1), layer.seen.add(1.5)
        return x * 2

    compiled, x, plain, ours = dynacomp.jit(fn), jnp.arange(4.0), Layer(), Layer()
    for layer in (plain, ours):
        layer.stack, layer.seen = [1, 2, 3], {1, 2}
    for _ in range(4):
        fn(plain, x), compiled(ours, x)
        assert state(ours) == state(plain)


def test_an_object_of_each_thread():
    local = threading.local()
    local.scope = None

    def fn(x):
        before, local.scope = local.scope, "inner"
        y = x + len(local.scope)
        local.scope = before
        return y

    compiled = dynacomp.jit(fn)
    for scope in (None, None, "outer", "outer", None):
        local.scope = scope
        assert (compiled(jnp.arange(3.0)) == jnp.arange(3.0) + 5).all() and local.scope is scope


def test_a_break_in_between_sees_what_stands_there_then():
    seen = []

    def fn(layer, x):
        was, layer.built = layer.built, False
        seen.append(layer.built), dynacomp.graph_break()
        seen.append(layer.built)
        layer.built = was
        return x * 2

    compiled, layer = dynacomp.jit(fn), Layer()
    for _ in range(4):
        compiled(layer, jnp.arange(3.0))
        assert layer.built is True
    assert seen == [False] * 8
