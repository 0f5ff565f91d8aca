"""`kinds.dicts_and_sets`: views that the captured code makes of its dicts."""

import collections
import inspect
import types

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.arange(3.0)


def compiled_like_plain(program, *args):
    dynacomp.reset()
    made = dynacomp.jit(program, backend="eager", fullgraph=True)
    for _ in range(3):
        want, got = program(*args), made(*args)
        assert repr(want[1:]) == repr(got[1:])
        np.testing.assert_allclose(want[0], got[0], rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1


def test_a_mappingproxy_shows_what_its_dict_becomes():
    def program(x):
        table = {"a": 1}
        shown = types.MappingProxyType(table)
        table["b"] = 2
        table["c"] = 4
        return x * shown["b"], list(shown), len(shown), "c" in shown, dict(shown), type(shown)

    compiled_like_plain(program, X)


def test_a_mappingproxy_that_leaves():
    def program(x):
        table = {"a": 1}
        return x + 1, table, types.MappingProxyType(table)

    compiled_like_plain(program, X)
    _, table, shown = dynacomp.jit(program, backend="eager")(X)
    table["new"] = 5
    assert shown["new"] == 5 and type(shown) is types.MappingProxyType


def test_signatures_that_the_program_asks_for():
    class Layer:
        def __call__(self, x, scale=2.0, *, mode="a"):
            return x * scale

    def program(x, layer):
        found = inspect.signature(layer)
        return layer(x, found.parameters["scale"].default), list(found.parameters)

    dynacomp.reset()
    made, layer = dynacomp.jit(program, backend="eager"), Layer()
    for _ in range(3):
        np.testing.assert_allclose(made(X, layer)[0], X * 2)
        assert made(X, layer)[1] == ["x", "scale", "mode"]
    assert dynacomp.stats()["graphs"] >= 1


@pytest.mark.parametrize("shown", [dict(b=1, a=2), collections.OrderedDict(b=1, a=2),
                                   collections.defaultdict(int, b=1)], ids=lambda d: type(d).__name__)
def test_copies_of_a_mappingproxy_are_of_the_class_that_it_shows(shown):
    def f(x, table):
        m = types.MappingProxyType(table)
        return x + 1, m.copy(), m | {"z": 1}, {"y": 2} | m, {"y": 2} | table

    for _ in range(2):
        assert repr(dynacomp.jit(f, backend="eager")(jnp.ones(2), shown)) == repr(f(jnp.ones(2), shown))


OPERATIONS = {
    "less": lambda s: s - {99, 8}, "more": lambda s: s | {26, 8}, "common": lambda s: s & {18, 10, 2, 8},
    "either": lambda s: s ^ {10, 34}, "methods": lambda s: s.difference([8]).union([26]),
    "copy": lambda s: frozenset(s)}


@pytest.mark.parametrize("name", OPERATIONS)
def test_frozensets_that_leave_show_their_elements_in_pythons_order(name):
    """They were made anew of their elements, which collide: in another order then."""
    def program(x, s):
        return x * 2, OPERATIONS[name](s)

    made = dynacomp.jit(program, backend="eager")
    grown = set(range(40))
    grown -= set(range(0, 40, 2)) | {1, 3}
    for s in ({2, 10, 18}, {18, 2, 10}, grown, {2, 10, 18}, range(40)):
        want, got = program(X, frozenset(s))[1], made(X, frozenset(s))[1]
        assert type(got) is frozenset and list(got) == list(want)
