"""`reconstruct.array_identity`: what a side of a condition leaves as it was is the very input, what it makes is new."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.reconstruct.array_identity import chosen


def one_of_two(c, x, y):
    z = x
    if c > 0:
        z = x * 2
    return z


def of_several(c, x, y):
    z = x if c > 0 else y
    if c > 5:
        z = y + 1
    return z, z


def test_the_array_of_an_origin():
    assert chosen(0, "made", 3, ("third", "fourth")) == "made"
    assert [chosen(k, "made", 3, ("third", "fourth")) for k in (3, 4)] == ["third", "fourth"]


@pytest.mark.parametrize("program", [one_of_two, of_several])
def test_inputs_stay_themselves(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    x, y = jnp.arange(3.0), jnp.ones(3)
    named = lambda found: ["x" if v is x else "y" if v is y else v.tolist()
                           for v in (found if isinstance(found, tuple) else (found,))]
    for c in (1.0, -1.0, 9.0, 0.0):
        got, want = compiled(jnp.float32(c), x, y), program(c, x, y)
        assert named(got) == named(want)
        assert not isinstance(got, tuple) or got[0] is got[1]
    stats = dynacomp.stats()
    assert (stats["frames_captured"], stats["breaks"]) == (1, {})


class Points(NamedTuple):
    low: Any
    high: Any
    chosen: Any


def one_field(c, p, other):
    if c > 0:
        p = p._replace(chosen=other.chosen)
    return p


def test_inputs_that_were_one_array_in_the_first_call():
    """The side that is chosen gives what its own place holds, also where that was the same array at first."""
    dynacomp.reset()
    compiled = dynacomp.jit(one_field, backend="eager")
    a, b, c = jnp.zeros(2), jnp.ones(2), jnp.arange(2.0)
    for p, other in ((Points(a, b, b), Points(b, b, a)), (Points(a, b, c), Points(b, b, c)),
                     (Points(a, b, a), Points(c, b, b)), (Points(c, a, b), Points(c, c, c))):
        for sign in (1.0, -1.0):
            want, got = (f(jnp.asarray(sign), p, other) for f in (one_field, compiled))
            assert all(x is y for x, y in zip(want, got)), (sign, p, other)
    assert not dynacomp.stats()["breaks"]


def one_of_two_new(c, x):
    a, b = x + 1, x + 2
    if c > 0:
        b = a
    return a, b, a is b, b is None


def walked_together(c, x):
    a = b = x
    while b.sum() > c:
        a = b = b / 2
    return a, b, a is b


@pytest.mark.parametrize("program", [one_of_two_new, walked_together])
def test_new_arrays_that_are_one_on_one_side_are_known_to_be(program):
    compiled = dynacomp.jit(program, backend="eager")
    for c in (1.0, -1.0, 1.0):
        args = jnp.asarray(c) + (program is walked_together), jnp.arange(4.0)
        assert program(*args)[2:] == compiled(*args)[2:]
