"""Guards of dicts and sets whose keys are objects, and code that finds such keys again, keep none of them alive."""

import gc
import weakref

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")

X = jnp.ones(())


class Plain:
    pass


class Hashed:
    def __hash__(self):
        return 7

    def __eq__(self, other):
        return self is other


def reads(table, key):
    return table[key]


def lists(table, key):
    return [k is key for k in table]


def writes(table, key):
    table[key] = 3
    table["new"] = 4
    return len(table)


def asks(table, key):
    return key in table, "no" in table


@pytest.mark.parametrize("kind", [Plain, Hashed])
@pytest.mark.parametrize("fn", [reads, lists, writes, asks])
def test_a_key_dies_with_its_dict(fn, kind):
    obj = kind()
    ref, tables = weakref.ref(obj), [{obj: 1}, {obj: 1}]
    compiled = dynacomp.jit(lambda table, key, x: (fn(table, key), x + 1))
    for table in tables:
        assert compiled(table, next(iter(table)), X)[0] == fn(dict(table), next(iter(table)))
    del obj, table
    tables.clear()
    gc.collect()
    assert ref() is None
    other = {kind(): 2}
    assert compiled(other, next(iter(other)), X)[0] == fn(dict(other), next(iter(other)))


def test_a_key_in_a_tuple_dies_with_its_dict():
    obj = Plain()
    ref, table = weakref.ref(obj), {(1, (obj, "a")): 1}
    compiled = dynacomp.jit(lambda table, x: (len(table), table.get("no"), x))
    assert compiled(table, X)[:2] == (1, None)
    del obj, table
    gc.collect()
    assert ref() is None


def test_elements_of_a_set_die_with_it():
    obj = Plain()
    ref, held = weakref.ref(obj), {obj}
    compiled = dynacomp.jit(lambda s, x: ([e is not None for e in s], x))
    assert compiled(held, X)[0] == [True]
    del obj, held
    gc.collect()
    assert ref() is None


def test_keys_in_a_tuple_are_told_apart():
    a, b = Plain(), Plain()
    compiled = dynacomp.jit(lambda table, x: ([k[0] is a for k in table], x))
    for key in (a, b, a):
        assert compiled({(key, 1): 1}, X)[0] == [key is a]


@pytest.mark.parametrize("made, kind", [
    (lambda o: {(o, 1)}, Plain), (lambda o: {(o, 1)}, Hashed),
    (lambda o: {(1, frozenset([o])): 1}, Plain), (lambda o: [{(o, (o,)): 2}], Plain),
])
def test_objects_in_tuples_in_sets_and_dicts_die_with_them(made, kind):
    obj = kind()
    ref, held = weakref.ref(obj), made(obj)
    compiled = dynacomp.jit(lambda s, x: ([list(e) is not None for e in s], x))
    assert compiled(held, X)[0] == [True]
    del obj, held
    gc.collect()
    assert ref() is None


def test_a_hash_that_is_no_function_is_not_asked():
    class Counting:
        calls = 0

        def __call__(self):
            self.calls += 1
            return 5

    count = Counting()
    key = type("Key", (), {"__hash__": count})()
    table = {key: 1}
    assert dynacomp.jit(lambda table, x: (len(table), x))(table, X)[0] == 1
    assert count.calls == 1
