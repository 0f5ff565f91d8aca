"""`interpret.schedules`: every kind of step, run in NumPy, gives what eager JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.primitives.translate import lower_function

REFERENCES = {name: row.reference for name, row in TEMPLATES.items()}
X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), jnp.float32)
PROGRAMS = {
    "kernel": lambda x: (jnp.sin(x).sum(0), x.T * 2),
    "template": lambda x: jnp.sort(x @ x, axis=0),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, v: jnp.tanh(v) + i, x),
    "while": lambda x: jax.lax.while_loop(lambda v: jnp.abs(v).max() > 1e-2, lambda v: v / 2, x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row, c * row.sum()), x[0], x),
    "reversed scan": lambda x: jax.lax.scan(lambda c, row: (c * row, c), x[0], x, reverse=True),
    "branches": lambda x: jax.lax.switch((x[0, 0] * 100).astype(int), [jnp.sin, jnp.cos, jnp.negative], x),
    "extern": lambda x: jnp.linalg.eigvals(x @ x.T).real.sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    plan = schedule(lower_function(PROGRAMS[name], X))
    for x in (X, -X * 3):
        got = schedules.run(plan, (x,), REFERENCES)
        for a, b in zip(got, jax.tree.leaves(PROGRAMS[name](x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
