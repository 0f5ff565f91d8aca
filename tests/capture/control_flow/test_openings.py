"""Conditions on numbers that change, seen to go both ways: one entry serves every combination of their sides."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike, vec


def lengths(x):
    y = x * 2
    if x.shape[0] > 6:
        y = y + 1
    if x.shape[0] % 2 == 0:
        y = y * 3
    return y


def schedule(x, step):
    if step < 3:
        rate = step / 3
    elif step < 6:
        rate = 1.0
    else:
        rate = 0.5 ** (step / 10)
    return x * rate, rate


def every_few(x, step):
    y = x + step
    if step % 5 == 0:
        y = y * 0.5
    if step % 3 == 0:
        y = y - 1
    return y


def kinds(x, k):
    """Sides of other types and shapes, a side that raises, and one whose number a shape needs."""
    scale = 2 if k > 2 else 0.5
    rows = 3 if k % 2 else 2
    if k > 7:
        raise ValueError(f"{k} is too much")
    z = x * scale if k != 4 else x + 1
    return z, jnp.ones((rows, 2)) * k, x[:2] if k > 3 else x


def changes_objects(x, k):
    seen, total = [], {"n": 0}
    if k > 2:
        seen.append(x)
        total["n"] += k
    else:
        seen.append(x * 2)
    if k % 2:
        total["n"] += 1
    return seen, total


def inside(x, k):
    def loss(v):
        w = v * v if k > 2 else jnp.sin(v)
        return (w if k % 2 else w * v).sum()
    return jax.grad(loss)(x), jax.vmap(lambda v: v + k if k > 3 else v - k)(x)


STEPS = (1, 2, 3, 4, 5, 6, 7, 10, 15, 30)


@pytest.mark.parametrize("program, calls", [
    (lengths, [(vec(n),) for n in (4, 5, 8, 9, 6, 3, 7, 12)]), (schedule, [(vec(4), k) for k in STEPS]),
    (every_few, [(vec(4), k) for k in STEPS]), (inside, [(vec(4), k) for k in STEPS]),
    (changes_objects, [(vec(4), k) for k in STEPS])], ids=lambda v: getattr(v, "__name__", ""))
def test_one_entry_serves_all_sides(program, calls):
    assert captures_of(program, calls) <= 3
    assert not dynacomp.stats()["breaks"]


def test_what_differs_in_more_than_numbers_is_guarded():
    assert captures_of(kinds, [(vec(4), k) for k in (1, 2, 3, 4, 5, 6, 7, 8, 1, 9)]) <= 9


def captures_of(program, calls):
    """How often it was captured; each call did what it does plainly."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for args in calls:
        assert not unlike(outcome(program, args), outcome(compiled, args)), args[1:]
    return dynacomp.stats()["frames_captured"]
