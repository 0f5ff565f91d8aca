"""`lowering.translate`: what eager JAX computes, the lowered Graph computes."""

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture import graph_interp
from dynacomp.lowering.translate import lower_function


def test_softmax_is_bitwise_eager():
    x = jnp.linspace(-3, 3, 12).reshape(3, 4)
    graph = lower_function(jax.nn.softmax, x)
    np.testing.assert_allclose(graph_interp.run(graph, x)[0], jax.nn.softmax(x), rtol=1e-6)
