"""Lists that a loop fills, where the loop is one node: rows of arrays and of numbers, on every way through a round."""

import jax.numpy as jnp
import numpy as np

import dynacomp


def test_a_long_loop_that_fills_a_list():
    def grows(x):
        seen = []
        for _ in range(300):
            x = jnp.sin(x)
            seen.append(x)
        return jnp.stack(seen).sum(), seen[-1]

    dynacomp.reset()
    np.testing.assert_allclose(dynacomp.jit(grows)(jnp.ones(3))[0], grows(jnp.ones(3))[0], rtol=1e-4)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_rows_on_both_sides_of_a_condition():
    def found(xs):
        rows = []
        for i, x in enumerate(xs):
            if x.sum() > 3:
                rows.append((x, i))
            else:
                rows.append((-x, i))
        return rows

    dynacomp.reset()
    compiled = dynacomp.jit(found, backend="eager")
    for n in (5, 7, 4, 9):
        xs = jnp.arange(2.0 * n).reshape(n, 2)
        assert repr(compiled(xs)) == repr(found(xs))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]
