"""Slices that move with a loop's counter: the loop is one node, one entry serves all lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.arithmetic.moving_slices import Line, places_from


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 4), jnp.float32)


def batches_with_a_rest(x):
    w, losses = jnp.ones(4), []
    for start in range(0, len(x), 3):
        part = x[start:start + 3]
        loss, slope = jax.value_and_grad(lambda w, part=part: ((part @ w - 1) ** 2).mean())(w)
        w = w - 0.01 * slope
        losses.append(loss)
    return w, sum(losses) / len(losses), part


def counted_batches(x):
    found = jnp.zeros(4)
    for b in range(len(x) // 3):
        found = found + x[b * 3:(b + 1) * 3].mean(0) * b
    return found


def windows(x):
    return jnp.stack([x[i - 1:i + 2].sum(0) for i in range(1, len(x) - 1)])


def backwards(x):
    found = jnp.zeros(4)
    for i in range(len(x) - 3, -1, -2):
        found = found * 0.5 + x[i:i + 3].sum(0)
    return found


def written(x):
    y = jnp.zeros_like(x)
    for i in range(0, len(x) - 1, 2):
        y = y.at[i:i + 2].add(x[i:i + 2] * 2 + i)
    return y


def other_axes(x):
    y, found = x.T, 0.0
    for i in range(y.shape[1] - 1):
        found = found + (y[1:, i:i + 2] * y[:-1, i:i + 2]).sum() + y[None, 0, i:i + 2].sum() + y[i % 4, i:i + 2].sum()
    return found


def half_as_wide(x):
    width, found = x.shape[0] // 2, jnp.zeros(4)
    for i in range(x.shape[0] - width):
        found = found + x[i:i + width].mean(0)
    return found


def of_lengths(fn, lengths=(14, 15, 16, 7, 12, 33)):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in lengths:
        for got, want in zip(*map(jax.tree.leaves, (compiled(rows(n)), fn(rows(n)))), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    stats = dynacomp.stats()
    return stats["frames_captured"], stats["breaks"]


@pytest.mark.parametrize("fn", [counted_batches, windows, backwards, written, other_axes, half_as_wide],
                         ids=lambda f: f.__name__)
def test_one_node_for_all_lengths(fn):
    assert of_lengths(fn) == (2, {})


@pytest.mark.medium
def test_the_last_round_may_take_less():
    """It is captured by itself: whether it is a whole one, nothing asks."""
    for fn in (batches_with_a_rest, jax.grad(lambda x: batches_with_a_rest(x)[0].sum())):
        captures, breaks = of_lengths(fn)
        assert captures <= 3 and not breaks


def cut_short_often(x):
    found = jnp.zeros(4)
    for i in range(len(x)):
        found = found * 0.5 + x[i:i + 3].sum(0)
    return found


def from_before_the_first(x):
    found = jnp.zeros(4)
    for i in range(len(x)):
        found = found * 0.5 + x[i - 2:i + 1].sum(0)
    return found


def ever_wider(x):
    found = jnp.zeros(4)
    for i in range(1, len(x)):
        found = found + x[:i].mean(0)
    return found


@pytest.mark.parametrize("fn, told", [(cut_short_often, (5, {"rounds": 2})), (from_before_the_first, (2, {})),
                                      (ever_wider, (5, {"rounds": 2}))], ids=lambda x: getattr(x, "__name__", ""))
def test_slices_that_do_not_keep_their_width_are_right(fn, told):
    assert of_lengths(fn, (5, 6, 4)) == told


def test_lines():
    a, b = Line(2, 3), Line(5, 0)
    assert (a + b, -a, a * b, b * a) == (Line(7, 3), Line(-2, -3), Line(10, 15), Line(10, 15))
    assert a * a is None and places_from(jnp.int32(4), 3).tolist() == [4, 5, 6]
