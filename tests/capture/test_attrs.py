"""Attributes: what a module, class or object has or lacks is guarded."""

import types

import jax.numpy as jnp
import numpy as np

import dynacomp


def test_an_attribute_that_a_module_did_not_have():
    module = types.ModuleType("shared")

    def program(x):
        return x + getattr(module, "extra", 1)

    compiled = dynacomp.jit(program, backend="eager")
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 1)
    module.extra = 5
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 5)
