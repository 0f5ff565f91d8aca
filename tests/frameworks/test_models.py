"""Every registered model sees compiled what it sees as plain Python, within its bound on graph breaks."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.frameworks import registry


@pytest.mark.parametrize("m", [pytest.param(m, id=m.name, marks=[pytest.mark.slow] * m.slow)
                               for m in registry.load()])
def test_model(m):
    assert registry.differences(m, registry.check(m)) == []


def test_comparison_sees_values_types_and_structure():
    same = {"a": jnp.ones(3), "b": 1.0}
    assert registry.compare(same, {"a": jnp.ones(3), "b": 1.0}, 1e-6) == []
    for other in ({"a": jnp.ones(3), "b": 1}, {"a": jnp.ones(3) * 2, "b": 1.0}, {"a": jnp.ones(3)},
                  {"a": jnp.ones(3, int), "b": 1.0}, {"a": np.ones(3, np.float32), "b": 1.0}):
        assert registry.compare(same, other, 1e-6)
