"""Deques: their limit, their words, and iterators that notice when they grow or shrink."""

import collections
import pickle

import jax.numpy as jnp
import pytest

import dynacomp

D = collections.deque


def outcome(fn, *args):
    try:
        return repr(fn(*args))
    except Exception as error:
        return type(error), str(error)


def meddling(d, answer):
    class Meddler:
        def __eq__(self, other):
            d.append(1)
            return answer

    return Meddler()


def stale():
    d = D("abc")
    it = iter(d)
    next(it)
    d.append("d")
    return next(it)


def searched(method, answer):
    d = D(range(4))
    d[2] = meddling(d, answer)
    return getattr(d, method)(9)


@pytest.mark.parametrize("fn", [
    lambda x: (D([1, 2]) * 2, D([1], 3) * 5, D([1]) + D([2]), D([x, 1], 4) * 2),
    lambda x: (D([1]) == [1], [1] == D([1]), D([x, 1]) == [x, 1]),
    lambda x: D([x]) + [1],
    lambda x: [x] + D([1]),
    lambda x: D([x][:0]).popleft(),
    lambda x: D([x], 1).insert(0, 1),
    lambda x: D([x], 1)[0:1],
    lambda x: D([x])["a"],
    lambda x: D([x])[1],
    lambda x: [next(reversed(D([x, 2, 3]))), list(reversed(D([1, 2])))],
    lambda x: stale(),
    *[lambda x, m=m, a=a: searched(m, a) for m in ("index", "count", "remove", "__contains__") for a in (True, False)],
])
def test_deques_are_no_lists(fn):
    x = jnp.ones(2)
    assert outcome(dynacomp.jit(fn), x) == outcome(fn, x)


def test_iterators_over_deques_leave_as_they_stand():
    def parts(x):
        d = D(["a", "b", "c"], 5)
        back, forth = reversed(d), iter(d)
        next(back), next(forth)
        print(end="")
        return x + 1, list(back), list(forth), pickle.dumps(list(back))

    assert outcome(dynacomp.jit(parts), jnp.ones(2)) == outcome(parts, jnp.ones(2))


def latest_first(x, kept):
    total = x
    for state in reversed(kept):
        if total.sum() > 1e3:
            print("large")
        total = total * state
    for state in kept:
        print(end="")
        total = total + state
    return total


def test_iterators_over_deques_go_on_behind_breaks():
    compiled = dynacomp.jit(latest_first, backend="eager")
    for k in range(8):
        if k == 4:
            dynacomp.reset()
        kept = D([jnp.full(2, float(n + k)) for n in range(3)], 5)
        assert outcome(compiled, jnp.ones(2), kept) == outcome(latest_first, jnp.ones(2), kept)
    assert not dynacomp.stats()["frames_eager"] and "iterator" not in dynacomp.stats()["breaks"]


def test_iterators_over_deques_that_change_refuse():
    def grows(x, kept):
        for state in kept:
            print(end="")
            kept.append(x * state)

    compiled = dynacomp.jit(grows, backend="eager")
    for _ in range(3):
        given = [D([1, 2]), D([1, 2])]
        assert outcome(compiled, jnp.ones(2), given[0]) == outcome(grows, jnp.ones(2), given[1])
        assert repr(given[0]) == repr(given[1]) and len(given[0]) == 3


def test_the_most_items_of_a_deque_are_an_int():
    class Ring(collections.deque):
        pass

    def fn(x, most, cls):
        ring = cls([1, 2], maxlen=most)
        ring.append(3)
        return x, ring, ring.maxlen

    for cls in (collections.deque, Ring):
        compiled = dynacomp.jit(fn, backend="eager")
        for most in (2, True, None, 2.0, -1):
            args = jnp.ones(2), most, cls
            assert outcome(compiled, *args) == outcome(fn, *args)
