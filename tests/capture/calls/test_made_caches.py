"""Functions with cached results that captured code makes: entered, counted, and whole where they leave."""

import functools
import gc

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.calls import cache_layout
from tests.capture.program_kit import check_one_graph

KEPT = []


def ten(n):
    return [(jnp.arange(3.0), i % n) for i in range(10)]


def test_where_cpython_keeps_it_is_known():
    assert None not in (cache_layout.FUNCTION, cache_layout.HITS, cache_layout.MISSES)


def recursion(x, n):
    @functools.cache
    def fib(k):
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    return x * fib(9) + n, fib(5), fib.cache_info(), fib.cache_parameters(), fib.__name__


def arrays(x, n):
    @functools.lru_cache
    def row(k, scale=1.0):
        return x * k + scale

    first = row(1)
    return first + row(2) + row(1, scale=2.0) + n, row(1) is first, row(1, 1.0) is first, row.cache_info()


def oldest_goes(x, n):
    asked = []

    @functools.lru_cache(maxsize=2)
    def f(k):
        asked.append(k)
        return k * 2

    total = sum(f(k) for k in (1, 2, 1, 3, 2, 1, 1.0))
    return x * total + n, asked, f.cache_info()


def typed(x, n):
    @functools.lru_cache(typed=True)
    def f(k, *, other=0):
        return type(k).__name__

    return x + n, f(1), f(1.0), f(True), f(1, other=2), f(1, other=2.0), f.cache_info()


def uncached(x, n):
    f = functools.lru_cache(maxsize=0)(lambda k: x * k)
    return f(2) + f(2) + n, f.cache_info()


def cleared(x, n):
    @functools.cache
    def f(k):
        return x + k

    first = f(1)
    f.cache_clear()
    return f(1) is first, f(1) + n, f.cache_info(), f.__wrapped__(1) is f(1)


def fails(x, n):
    @functools.cache
    def f(k):
        if k == 2:
            raise ValueError(k)
        return k

    seen = []
    for k in (1, 2, 2, 1):
        try:
            seen.append(f(k))
        except ValueError as error:
            seen.append(str(error))
    return x + n, seen, f.cache_info()


def unhashable(x, n):
    try:
        return functools.cache(lambda k: k)([1])
    except TypeError as error:
        return x + n, str(error)


def below_grad(x, n):
    def loss(w):
        @functools.cache
        def power(k):
            return w if k == 1 else power(k - 1) * w

        return (power(3) + power(2)).sum()

    return jax.grad(loss)(x) * n


def unwrapped(x, n):
    @functools.cache
    def f(k):
        """Doc."""
        return x * k

    f.note = 3

    @functools.wraps(f)
    def g(k):
        return f(k) + 1

    return g(2) + n, g.__doc__, g.note, g.__wrapped__ is f, callable(f), sorted(vars(g))


@pytest.mark.parametrize("program", [recursion, arrays, oldest_goes, typed, uncached, cleared, fails, unhashable,
                                     below_grad, unwrapped])
def test_calls_are_entered(program):
    check_one_graph(program, *ten(2), captures=2)


def whole(x, size):
    """A wrapper that leaves goes on as CPython's does."""
    calls = []

    @functools.lru_cache(maxsize=size)
    def f(k, *, add=0):
        calls.append(k)
        return f(k - 1) + k + add if k else 0

    f(2)
    f(1)
    f(0, add=3)
    f.note = calls
    return x + f(2), f


@pytest.mark.parametrize("size", [None, 0, 1, 2, 3, 4, 128])
def test_what_leaves_is_pythons(size):
    dynacomp.reset()
    compiled = dynacomp.jit(whole, backend="eager")
    for _ in range(10):
        (_, want), (_, got) = whole(jnp.ones(2), size), compiled(jnp.ones(2), size)
        assert type(got) is functools._lru_cache_wrapper and got is not want
        for _ in range(2):
            assert got.cache_info() == want.cache_info() and got.note == want.note
            assert got.cache_parameters() == want.cache_parameters() == {"maxsize": size, "typed": False}
            assert [got(k) for k in (2, 4, 1, 0)] == [want(k) for k in (2, 4, 1, 0)]
        assert got.__wrapped__.__closure__[1].cell_contents is got and got.__qualname__ == want.__qualname__
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 2
    gc.collect()


class Key:
    """Hashed and compared by code of the program."""

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n

    def __eq__(self, other):
        KEPT.append((self.n, other.n))
        return self.n == other.n


def own_keys(x):
    KEPT.clear()
    f = functools.cache(lambda key: x * key.n)
    return f(Key(1)) + f(Key(2)) + f(Key(1)), list(KEPT), f.cache_info()


def test_keys_with_code_of_their_own():
    check_one_graph(own_keys, (jnp.ones(3),), captures=1)


def across(x, n):
    @functools.cache
    def f(k):
        return x * k

    first = f(n)
    print(end="")
    return f(n) is first, f(n + 1) + first, f.cache_info()


def test_results_outlive_a_break():
    compiled = dynacomp.jit(across, backend="eager")
    for i in range(10):
        got, want = compiled(jnp.arange(3.0), i), across(jnp.arange(3.0), i)
        assert repr(got) == repr(want)
