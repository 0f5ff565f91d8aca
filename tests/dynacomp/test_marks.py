"""Sizes that the user marks: how many entries there are for how many sizes, and what is refused."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import marks


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def doubled(x):
    return jnp.tanh(x) * x.shape[0]


def captures(mark, sizes):
    compiled = dynacomp.jit(doubled, backend="eager")
    for n in sizes:
        x = jnp.arange(2.0 * n).reshape(n, 2)
        mark(x)
        np.testing.assert_allclose(compiled(x), doubled(x), rtol=1e-6)
    return dynacomp.stats()["frames_captured"]


def test_a_dynamic_size_has_one_entry_for_all_and_a_static_one_has_its_own_for_each():
    sizes = (5, 9, 4, 7, 5, 3)
    assert captures(lambda x: dynacomp.mark_dynamic(x, 0), sizes) == 1
    dynacomp.reset()
    assert captures(lambda x: dynacomp.mark_static(x, 0), sizes) == len(set(sizes))


def test_a_size_outside_of_the_bounds_has_an_entry_of_its_own():
    def mark(x):
        if x.shape[0] <= 8:
            dynacomp.mark_dynamic(x, -2, min=2, max=8)

    assert captures(mark, (3, 8, 2, 9, 3)) == 2


def test_dimensions_are_counted_from_the_front_and_marks_die_with_their_array():
    x = jnp.ones((2, 3, 4))
    dynacomp.mark_dynamic(x, (0, -1), min=1)
    dynacomp.mark_static(x, 1)
    assert dict(marks.dynamic_marks(x)) == {0: (1, None), 2: (1, None)} and list(marks.static_marks(x)) == [1]
    key = id(x)
    del x
    gc.collect()
    assert key not in marks._DYNAMIC and key not in marks._STATIC
    other = jnp.ones(3)
    assert not marks.dynamic_marks(other) and not marks.static_marks(other)


@pytest.mark.parametrize(("dim", "bounds", "error"), [
    (2, {}, IndexError), (-3, {}, IndexError), (0, {"min": 4}, ValueError), ((1, 0), {"max": 2}, ValueError)])
def test_what_cannot_hold_is_refused_at_once(dim, bounds, error):
    x = jnp.ones((3, 2))
    with pytest.raises(error, match="dimension"):
        dynacomp.mark_dynamic(x, dim, **bounds)
    assert 0 not in marks.dynamic_marks(x)
