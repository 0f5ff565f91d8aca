"""The guard `no_array`: what it finds in a value, without running anything of the program's."""

import collections
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture import _native as native

X = jnp.ones(2)
JITTED = type(jax.jit(lambda: None))


def holds(value, classes=(JITTED,)):
    return native.GuardProgram([("local", 0, 0), ("no_array", 0, classes)]).check(lambda v: None, (value,)) == -1


class Slotted:
    __slots__ = ("held", "unset")

    def __init__(self, held):
        self.held = held

    def method(self):
        """Bound to what it is a method of."""


class Loud:
    def __getattr__(self, name):
        raise AssertionError(name)

    __iter__ = __len__ = __getitem__ = __eq__ = __getattr__
    __hash__ = object.__hash__


def yielding(x):
    yield x


CYCLE: list = [1]
CYCLE.append(CYCLE)


@pytest.mark.parametrize("value", [
    X, [X], {"w": (1, X)}, collections.deque([X]), Slotted(X), Slotted([X]).method, types.SimpleNamespace(w=X),
    iter([X]), enumerate([X]), zip([1], [X]), {"w": X}.items(), yielding(X), jax.jit(lambda x: x), [jnp.sin],
    jax.random.key(0), [[[[X]]]]], ids=lambda value: type(value).__name__)
def test_what_holds_an_array(value):
    assert not holds(value)


@pytest.mark.parametrize("value", [
    None, 1, "x", np.ones(2), jnp, np.sin, [1, "a"], {"k": np.ones(1)}, Slotted(3), types.SimpleNamespace(n=1), len,
    lambda x: X, Loud(), Slotted, CYCLE, iter([1]), itertools.count(), yielding(3)], ids=lambda v: type(v).__name__)
def test_what_holds_none(value):
    assert holds(value)


def test_tracers_are_arrays():
    found = []
    jax.make_jaxpr(lambda x: found.append(holds([x])) or x)(X)
    assert found == [False]


def test_of_much_a_part_is_looked_at():
    deep = [X]
    for _ in range(20):
        deep = [deep]
    assert holds(deep) and holds([1] * 1000 + [[2] * 60] * 1000)


def test_classes_are_a_tuple():
    with pytest.raises(TypeError, match="tuple of classes"):
        holds(1, [JITTED])
