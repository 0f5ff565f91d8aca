"""Mappings shown read-only: what is found of a `types.MappingProxyType` is the dict behind it, now."""

from __future__ import annotations

import collections
import types

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import counters

TABLE = {"a": 1, "n": {"k": 2}}
SHOWN = types.MappingProxyType(TABLE)
ORDERED = types.MappingProxyType(collections.OrderedDict(b=1))
X = jnp.arange(3.0)


def layer(x, metadata=types.MappingProxyType({}), **more):
    return x + len(metadata), more


def spread(x):
    return layer(x, **SHOWN), {**SHOWN}, dict(SHOWN), [*SHOWN], list(SHOWN.items()), "a" in SHOWN, SHOWN.get("z", x)


def operators(x):
    return SHOWN == TABLE, SHOWN | {"b": x}, type(SHOWN | {}), type(SHOWN.copy()), len(SHOWN), x if SHOWN else -x


def itself(x):
    return SHOWN is SHOWN, type(SHOWN), isinstance(SHOWN, dict), hasattr(SHOWN, "pop"), x


def through(x):
    """A change to the dict is seen through its mappingproxy, and the other way round."""
    TABLE["c"] = x
    SHOWN["n"]["k"] += 1
    found = list(SHOWN), SHOWN["c"], TABLE["n"]["k"]
    del TABLE["c"]
    TABLE["n"]["k"] = 2
    return found, "c" in SHOWN


@pytest.mark.parametrize("f", [spread, operators, itself, through], ids=lambda f: f.__name__)
def test_entries_are_those_of_the_dict_behind(f):
    before = counters.stats()["breaks"]
    assert repr(dynacomp.jit(f)(X)) == repr(f(X))
    assert counters.stats()["breaks"] == before


def store(x):
    SHOWN["z"] = x


def delete(x):
    del SHOWN["a"]


def merge(x):
    shown = SHOWN
    shown |= {"z": x}


@pytest.mark.parametrize("f", [store, delete, merge], ids=lambda f: f.__name__)
def test_changes_are_refused_in_pythons_words(f):
    with pytest.raises(TypeError) as plain:
        f(X)
    with pytest.raises(TypeError) as compiled:
        dynacomp.jit(f)(X)
    assert str(compiled.value) == str(plain.value) and list(SHOWN) == ["a", "n"]


def test_a_change_of_the_dict_between_calls_is_seen():
    table = {"a": 1.0}
    shown = types.MappingProxyType(table)
    f = dynacomp.jit(lambda shown, x: x * shown["a"])
    assert f(shown, X).tolist() == [0, 1, 2]
    table["a"] = 3.0
    assert f(shown, X).tolist() == [0, 3, 6]
    assert f(types.MappingProxyType({"b": 0, "a": 5.0}), X).tolist() == [0, 5, 10]
    assert f({"a": 2.0}, X).tolist() == [0, 2, 4]


def test_what_shows_something_else_than_a_dict_is_pythons():
    class Class:
        k = 3

    def f(x):
        return list(ORDERED), ORDERED["b"] + x, [n for n in Class.__dict__ if n == "k"]

    assert repr(dynacomp.jit(f)(X)) == repr(f(X))
