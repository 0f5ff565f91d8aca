"""What code names of the types of what it is given."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.hosting.code_names import asks_for_class

nn = pytest.importorskip("flax.linen")

X = jnp.ones((2, 3))


class Asking(nn.Module):
    """Modules may ask what they are given, as functions that a library calls may."""

    @nn.compact
    def __call__(self, x, rate):
        return x * 2 * rate if isinstance(rate, float) else x * rate


class HavingShape(nn.Module):
    def __call__(self, x, rate):
        return x * rate if hasattr(rate, "shape") else x - rate


class NamedType(nn.Module):
    def __call__(self, x, rate):
        return x * len(type(rate).__name__) + rate


@pytest.mark.parametrize("module", [Asking(), HavingShape(), NamedType()])
def test_a_changing_number_is_a_number_for_code_that_asks(module):
    """An array stood for it from the second number on, and a module was told so."""
    compiled = dynacomp.jit(lambda x, rate: module.apply({}, x, rate), backend="eager")
    for rate in (0.5, 1.5, 2.5, 3, jnp.float32(2), 4.5):
        np.testing.assert_array_equal(compiled(X, rate), module.apply({}, X, rate))


def test_a_changing_number_stays_an_input_where_nobody_asks():
    class Scaled(nn.Module):
        def __call__(self, x, rate):
            return x * rate if isinstance(x, tuple) else rate - x

    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, rate: Scaled().apply({}, x, rate), backend="eager")
    for rate in (0.5, 1.5, 2.5, 3.5, 4.5):
        np.testing.assert_array_equal(compiled(X, rate), rate - X)
    assert dynacomp.stats()["frames_captured"] == 2


def test_of_self_a_class_may_be_asked():
    def fn(self, n):
        return type(self).__name__, isinstance(n, int)

    def of_size(self, n):
        return type(n) is int

    assert not asks_for_class(fn.__code__) and asks_for_class(of_size.__code__)
