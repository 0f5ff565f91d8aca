"""Cached functions: the object that the cache has, the count of its hits, and nothing stale."""

import functools
import gc
import weakref

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.builtins import cached_rows

CALLS = []


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()
    CALLS.clear()


def row(n, scale=1.0):
    CALLS.append(n)
    return jnp.arange(n) * scale


CACHES = {size: functools.lru_cache(maxsize=size)(row) for size in (None, 128)}
unbounded, bounded = CACHES.values()
last = functools.lru_cache(maxsize=1)(row)


def summed(x):
    return x + unbounded(3) + bounded(3, scale=2.0), unbounded(3) is unbounded(3)


def test_where_cpython_keeps_it_is_known():
    assert cached_rows.CACHE is not None and cached_rows.RESULT is not None


def test_hits_break_nothing_and_are_counted():
    compiled = dynacomp.jit(summed, backend="eager")
    for cache in CACHES.values():
        cache.cache_clear()
    for n in range(4):
        value, same = compiled(jnp.ones(3))
        assert value.tolist() == [1, 4, 7] and same
        assert unbounded.cache_info()[:2] == (2 + 3 * n, 1) and bounded.cache_info()[:2] == (n, 1)
    assert CALLS == [3, 3]
    before = dynacomp.stats()["breaks"]
    compiled(jnp.ones(3))
    assert dynacomp.stats()["breaks"] == before


def test_the_result_is_the_object_in_the_cache():
    kept = bounded(5)
    compiled = dynacomp.jit(lambda x: (x + 1, bounded(5)), backend="eager")
    assert [compiled(jnp.ones(2))[1] is kept for _ in range(2)] == [True, True]
    assert dynacomp.stats()["breaks"] == {}
    bounded.cache_clear()
    assert compiled(jnp.ones(2))[1] is not kept
    assert compiled(jnp.ones(2))[1] is bounded(5)


def test_a_link_that_is_used_again():
    """A full cache keeps the next result where the oldest was."""
    compiled = dynacomp.jit(lambda x: last(2), backend="eager")
    first = last(2)
    assert compiled(jnp.ones(2)) is first
    last(3)
    again = compiled(jnp.ones(2))
    assert again is not first and again is last(2) and compiled(jnp.ones(2)) is again


def test_other_arguments_are_pythons():
    compiled = dynacomp.jit(lambda x, n: x + unbounded(n).sum(), backend="eager")
    assert [compiled(jnp.zeros(2), n)[0].item() for n in range(12)] == [sum(range(n)) for n in range(12)]
    assert dynacomp.stats()["frames_eager"] == {}


def test_nothing_is_kept_alive():
    class Model:
        def __init__(self):
            self.table = functools.cache(self.make)

        def make(self, n):
            return n * 2.0

    model = Model()
    compiled = dynacomp.jit(lambda m, x: x * m.table(3), backend="eager")
    assert [compiled(model, jnp.ones(2))[0].item() for _ in range(3)] == [6.0] * 3
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def made_inside(scale):
    @functools.cache
    def table(n):
        return jnp.arange(n) * scale

    return lambda x: x + table(3), table


def test_a_cache_that_a_function_has_made_is_read_through_what_holds_it():
    fn, table = made_inside(2.0)
    compiled = dynacomp.jit(fn, backend="eager")
    found = []
    for i in range(5):
        assert compiled(jnp.ones(3) * i).tolist() == [i, i + 2, i + 4]
        found.append(dynacomp.stats()["frames_captured"])
    assert found[1:] == [found[1]] * 4 and table.cache_info()[:2] == (4, 1)
    ref = weakref.ref(table)
    del fn, table, compiled
    gc.collect()
    assert ref() is None


def asked_by_python(x, n):
    @functools.cache
    def scaled(k):
        return x * k

    first = scaled(n)
    if first.sum() > 3:
        print(end="")
    return scaled(n) is first, scaled(n + 1), scaled.cache_info()


def test_wrappers_that_each_call_brings_anew_are_pythons():
    """Behind a break, or as an argument: no entry is for one of them."""
    compiled = dynacomp.jit(asked_by_python, backend="eager")
    given = dynacomp.jit(lambda f, x: f(3) + x, backend="eager")
    for i in range(10):
        if i == 6:
            before = dynacomp.stats()["frames_captured"]
        x = jnp.arange(3.0)
        assert repr(compiled(x, i % 2)) == repr(asked_by_python(x, i % 2))
        assert given(functools.cache(lambda n, i=i: n * i), x).tolist() == [3 * i, 3 * i + 1, 3 * i + 2]
    assert dynacomp.stats()["frames_captured"] == before


@functools.lru_cache(100)
def is_float_class(cls, name):
    return name in cls.__name__


def test_numpys_classes_of_dtypes_are_keys():
    """SciPy's array namespaces ask for them: `scipy.signal.get_window` broke the graph."""
    def f(x):
        return x * 2 if is_float_class(type(x.dtype), "Float") else x

    is_float_class(type(jnp.ones(3).dtype), "Float")
    compiled = dynacomp.jit(f, backend="eager")
    assert compiled(jnp.ones(3))[0] == 2 and is_float_class.cache_info().hits == 1
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 and not stats["breaks"]
