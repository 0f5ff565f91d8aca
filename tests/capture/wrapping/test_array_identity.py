"""`wrapping.array_identity`: what a side of a condition leaves as it was is the very input, what it makes is new."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.wrapping.array_identity import chosen


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
