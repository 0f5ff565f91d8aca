"""`capture.arithmetic.ranges`: ranges with ends that change are never broken for, and are Python's."""

import jax.numpy as jnp
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike


def ends(x, r):
    return x * len(r), len(r), r[0], r[-1], bool(r)


def starts(x, r):
    steps = range(0, x.shape[0], 3)
    return x[steps[-1]:].sum() / len(steps), steps[-1], steps[1]


def back(x, r):
    down, odd = range(x.shape[0], -5, -2), range(x.shape[0], 1, -1)
    return x.sum(), len(down), down[-1], down[2], len(odd), odd[0], odd[-2]


def maybe_empty(x, r):
    rest = range(6, x.shape[0])
    if rest:
        return x * len(rest), rest[0]
    return x, len(rest), len(range(6, x.shape[0], 2)), len(range(x.shape[0], 6, -2))


def behind_the_end(x, r):
    try:
        return x * 2, range(x.shape[0])[6]
    except IndexError as error:
        return x, str(error)


@pytest.mark.parametrize(("program", "captures"), [
    (ends, 2), (starts, 2), (back, 2), (maybe_empty, 4), (behind_the_end, 4)])
def test_lengths_and_items_are_numbers_of_the_ends(program, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(10):
        args = jnp.arange(4.0 + n), range(n, 2 * n + 3)
        assert not unlike(outcome(program, args), outcome(compiled, args))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= captures and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda x, k: (x * 2, len(range(0, x.shape[0], k))), lambda x, k: (x, range(x.shape[0])[k - 3]),
    lambda x, k: (x, [*range(x.shape[0])[k:]]), lambda x, k: (x, range(x.shape[0])["a"]),
    lambda x, k: (x, range(0, x.shape[0], k - 1)[0])])
def test_steps_and_indices_that_change_are_pythons(program):
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(8):
        args = jnp.arange(5.0 + n), 1 + n % 3
        assert not unlike(outcome(program, args), outcome(compiled, args))
