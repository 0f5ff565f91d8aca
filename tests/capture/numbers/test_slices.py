"""Slices of arrays whose ends are ints that change: below zero, within, beyond, by one entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture._native import slice_first, slice_length

ENDS = (3, -1, 0, 12, 2, -4, 9, 1, -9, -12)


def agree(fn, calls, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for args in calls:
        for want, got in zip(jax.tree.leaves(fn(*args)), jax.tree.leaves(compiled(*args)), strict=True):
            np.testing.assert_array_equal(want, got)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= captures and not stats["breaks"] and not stats["frames_eager"], stats


def test_ends_are_computed_as_python_does():
    many = (*range(-12, 13), 2**62, -2**62, 2**70, -2**70, True)
    for size in (0, 1, 5, 9):
        for start in many:
            assert slice_first(start, size) == slice(start, None).indices(size)[0]
            for stop in many:
                for step in (1, 2, 7, 2**70):
                    asked = range(size)[start:stop:step]
                    assert slice_length(start, stop, step, size) == len(asked), (start, stop, step, size)
    for wrong in ((1.0, 2, 1, 3), ("1", 2, 1, 3), (1, 2, 1), ()):
        with pytest.raises(TypeError):
            slice_length(*wrong)
    with pytest.raises(ValueError, match="step"):
        slice_length(0, 3, 0, 3)
    with pytest.raises(TypeError):
        slice_first(None, 3)


@pytest.mark.parametrize("fn", [
    lambda x, k: x[:k] * 2,
    lambda x, k: x.at[:k].set(0.0),
    lambda x, k: x[None, k:, ..., :2].sum(1),
    lambda x, k: x.T[..., :k:2] + 1,
    lambda x, k: x[k:k + 3, 0],
    lambda x, k: jax.vmap(lambda row: row[k:])(x.T),
    lambda x, k: jax.grad(lambda x: (x[:k] ** 2).sum())(x),
])
def test_any_end(fn):
    agree(fn, [(jnp.arange(27.0).reshape(9, 3), k) for k in ENDS], 3)


def test_of_an_array_whose_size_changes():
    agree(lambda x, k: x[k:] * 2, [(jnp.arange(n), k) for n, k in zip((9, 5, 4, 7, 3, 8, 2, 6, 5, 4), ENDS)], 3)


def test_what_may_take_several_axes_leaves_the_slices_after_it_alone():
    mask = np.array([[True, False], [True, True]])
    agree(lambda x, k: x[mask, :k], [(jnp.arange(12.0).reshape(2, 2, 3), k) for k in (1, 2, 3, 2)], 3)


def test_a_whole_axis_is_a_slice_as_any_other():
    """JAX asks whether it is the whole axis only to leave the slice out."""
    agree(lambda x: x[:x.shape[0] // 2 + 1] + 1, [(jnp.arange(n),) for n in (5, 6, 1, 2, 9)], 2)


class Window:
    def __init__(self, k):
        self.at = slice(k, k + 4)


@pytest.mark.parametrize("fn, given", [
    (lambda x, s: x[s] * 2, lambda k: slice(k, k + 4)),
    (lambda x, s: x[s] * 2, lambda k: slice(np.int64(k), np.int32(k + 4))),
    (lambda x, s: x[s] + 1, lambda k: (slice(k, None), slice(None, k, 2))),
    (lambda x, w: x[w.at].sum(0), Window),
    (lambda x, s: x * (s.stop - s.start) + s.start, lambda k: slice(k, 2 * k)),
    (lambda x, s: jax.grad(lambda y: y[s["w"]].sum())(x), lambda k: {"w": slice(k, k + 4)}),
], ids=["ints", "numpys", "tuple", "attribute", "ends", "dict"])
def test_slices_that_come_with_the_call(fn, given):
    """They are their ends, not the object: it is made anew in each call."""
    agree(fn, [(jnp.arange(40.0).reshape(20, 2), given(k)) for k in (1, 2, 5, 3, 9, 4, 7, 8, 6, 10)], 3)


def test_given_slices_are_the_same_objects_and_compare_by_their_ends():
    kept = []

    def fn(x, s, t):
        kept.append(s)
        return x[s], kept[-1] is s, s is t, s == t, s != slice(2, 6, None), [s, t].index(t)

    calls = [(jnp.arange(20.0), slice(k, k + 4), slice(2, 6)) for k in (1, 2, 5, 3, 9, 4, 2, 8)]
    agree(fn, calls, 4)
    compiled = dynacomp.jit(lambda x, s: (x, s), backend="eager")
    for x, s, _ in calls:
        assert compiled(x, s)[1] is s


def test_given_slices_across_breaks():
    random = np.random.default_rng(0)
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: x[random.integers(3):, :random.integers(3, 6)].sum(), backend="eager")
    for _ in range(8):
        compiled(jnp.ones((6, 6)))
    assert dynacomp.stats()["frames_captured"] <= 8 and not dynacomp.stats()["frames_eager"]
