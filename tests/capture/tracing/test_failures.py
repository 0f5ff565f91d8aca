"""`tracing.failures`: what fails by a mistake of ours is told from what fails in the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.tracing.failures import is_defect


def test_mistakes_in_any_room_are_ours():
    with pytest.raises(AttributeError) as ours:
        decode(None)
    with pytest.raises(AttributeError) as theirs:
        None.content  # noqa: B018
    assert is_defect(ours.value) and not is_defect(theirs.value)


def test_a_call_without_arrays_may_fail_inside_a_transformed_function():
    """As Keras asks for cuDNN's version, and takes another way where JAX finds none."""
    def loss(x):
        try:
            jax.devices("no such platform")
        except RuntimeError:
            x = x * 2
        try:
            jnp.zeros((2, -1))
        except (TypeError, ValueError):
            x = x + 1
        return (x ** 2).sum()

    x = jnp.arange(3.0)
    dynacomp.reset()
    compiled = dynacomp.jit(jax.grad(loss), backend="eager", fullgraph=True)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), jax.grad(loss)(x), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1
