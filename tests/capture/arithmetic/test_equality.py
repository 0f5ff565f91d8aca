"""`arithmetic.equality`: containers, slices, ranges and methods equal what they equal in Python, in each call."""

import collections

import jax.numpy as jnp
import pytest

import dynacomp


def test_ranges_of_changing_ends_are_equal_where_they_give_the_same():
    """They were compared by identity."""
    def fn(x, *ends):
        known, made = range(2, 20, 3), range(*ends)
        return (x, known == made, made == known, made != known, made == range(*ends), made in [known],
                known in {made: 1}, (made,) == (known,))

    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    for ends in ((2, 19, 3), (2, 19, 1), (2, 19, 3), (2, 20, 3), (2, 17, 3), (1, 20, 3), (2, 3, 3), (2, 2, 1)):
        assert compiled(jnp.ones(2), *ends)[1:] == fn(jnp.ones(2), *ends)[1:]
    assert not dynacomp.stats()["frames_eager"]


def _slices(x, n):
    return slice(1, n) == slice(1, 3), slice(n) in [slice(2)], (1, slice(n)) == (1, slice(None, 3))


def _sequences(x, n):
    pair = collections.namedtuple("pair", "a b")
    return [1, n] == [1, 3], (1, n) == pair(1, 3), [n, x][:1] == [3], (n,) == [n], {"k": n} == {"k": 3.0}, {n} == {3}


def _methods(x, n):
    first, second = [n], [3]
    return first.append == first.append, first.append == second.append, first == second, first is second


def _not_numbers(x, n):
    nan = float("nan") if n else n
    return [nan] == [nan], nan == nan, nan in (nan, 1), [n * nan] == [n * nan]


@pytest.mark.parametrize("fn", [_slices, _sequences, _methods, _not_numbers], ids=lambda f: f.__name__)
def test_equal_or_not_in_each_call(fn):
    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    for n in (3, 3, 2, 4, 3, 0):
        assert compiled(jnp.ones(2), n) == fn(jnp.ones(2), n)
    assert not dynacomp.stats()["frames_eager"]
