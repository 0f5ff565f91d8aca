"""Weak references as keys: they are compared by the program's own code, which runs once for each comparison."""

import weakref

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")

X = jnp.arange(2.0)
ASKED: list = []


class Key:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        ASKED.append((self.value, other.value))
        return self.value == other.value


def asked(fn):
    ASKED.clear()
    return fn(X), list(ASKED)


def test_keys_are_compared_as_often_as_in_plain_python():
    def table(x):
        keys = [Key(k) for k in range(3)]
        held = weakref.WeakKeyDictionary()
        for key in keys:
            held[key] = key.value
        del held[keys[1]]
        return sorted(held.values()), keys[1] in held, Key(2) in held

    def group(x):
        keys = [Key(k) for k in range(3)]
        held = weakref.WeakSet(keys)
        held.discard(keys[0])
        return len(held), keys[2] in held

    for fn in (table, group):
        compiled = dynacomp.jit(fn, backend="eager")
        assert asked(compiled) == asked(fn) == asked(compiled)
