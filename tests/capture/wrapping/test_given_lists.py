"""`wrapping.given_lists`: what the items of a list have in common, and that a store among them is seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.wrapping.given_lists import Arrays, Columns, HostArrays, Many, Numbers, Unlike
from tests.changing.kit import outcome, unlike

LENGTHS = (5, 7, 3, 6, 2)


def test_columns():
    pairs = Columns(Many(tuple, (Numbers(int), Arrays(1, jnp.float32, False))))
    numbers, arrays = pairs([(i, jnp.ones(2) * i) for i in range(3)])
    assert numbers == (0, 1, 2) and arrays.tolist() == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(("of", "items"), [
    (Numbers(int), [1, True]), (Numbers(float), [1.0, np.float64(2)]), (Many(tuple, (Numbers(int),)), [(1,), (1, 2)]),
    (Arrays(0, jnp.float32, False), [jnp.float32(1), jnp.asarray(1.0)]),
    (HostArrays((2,), np.dtype("f4")), [np.zeros(2)]),
    (Arrays(1, jnp.float32, False), [jax.device_put(jnp.ones(2), jax.devices()[0])])])
def test_others_are_unlike(of, items):
    with pytest.raises(Unlike):
        Columns(of)(items)


def stores_in_the_first(xs):
    xs[0][0] = 50.0
    return jnp.array(xs)


def stores_in_the_last(xs):
    row = xs[-1]
    row[1] = row[1] + 7
    return jnp.array(xs), row


def stores_in_a_tuple(xs):
    xs[-1][1][0] = 4.0
    return [jnp.array(row).sum() * i for i, row in xs]


def holds_itself(xs):
    xs[1].append(xs[1])
    return len(xs), xs[0][0] + jnp.ones(2)


@pytest.mark.parametrize(("fn", "item"), [
    (stores_in_the_first, lambda i: [1.0 * i, 2.0]), (stores_in_the_last, lambda i: [1.0 * i, 2.0]),
    (stores_in_a_tuple, lambda i: (i, [1.0 * i, 2.0])), (holds_itself, lambda i: [1.0 * i])], ids=lambda x: x.__name__)
def test_a_store_into_a_list_in_the_list_is_seen(fn, item):
    """Their columns would be what they were before the call."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in LENGTHS:
        wrong = unlike(outcome(fn, ([item(i) for i in range(n)],)), outcome(compiled, ([item(i) for i in range(n)],)))
        assert not wrong, f"length {n}: {wrong}"
    assert 1 <= dynacomp.stats()["frames_captured"] <= 11


def test_what_guards_have_made_is_not_made_again(monkeypatch):
    """The stack of the arrays in a list, which the Graph is given: once in each call."""
    made, stacked = [], Arrays.__call__
    monkeypatch.setattr(Arrays, "__call__", lambda self, items: made.append(len(items)) or stacked(self, items))
    dynacomp.reset()
    compiled = dynacomp.jit(lambda xs: [x + 1 for x in xs], backend="eager")
    for n in (3, 4, 5):
        compiled([jnp.ones(3)] * n)
    made.clear()
    assert len(compiled([jnp.ones(3)] * 6)) == 6 and made == [6]
    assert dynacomp.stats()["frames_captured"] == 2
