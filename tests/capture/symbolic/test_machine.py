"""`symbolic.machine`: instructions run symbolically, and how far that goes."""

import jax.numpy as jnp
import numpy as np

import dynacomp
from dynacomp.capture.symbolic.machine import MAX_DEPTH


def down(x, n):
    return x if n == 0 else down(x + 1, n - 1) * 2 - x


def test_calls_inside_each_other_are_captured_up_to_a_depth():
    dynacomp.reset()
    compiled = dynacomp.jit(down, backend="eager")
    for size in (3, 4, 5):
        np.testing.assert_array_equal(compiled(jnp.ones(size), 20), down(jnp.ones(size), 20))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]
    np.testing.assert_array_equal(compiled(jnp.zeros(3), MAX_DEPTH + 5), down(jnp.zeros(3), MAX_DEPTH + 5))
    told = dynacomp.stats()  # where Python's own recursion limit comes first, the frame runs eagerly
    assert told["breaks"].get("depth") or told["frames_eager"].get("depth")
