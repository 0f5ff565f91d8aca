"""Windows over arrays whose sizes change, and windows that do not fit."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from tests.lowering.closed import same_as_eager

FOLDS = [(lax.add, 0.0), (lax.max, -np.inf), (lax.mul, 1.0), (lambda a, b: a + 2 * b, 0.0)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fold, start", FOLDS)
def test_changing_sizes(fold, start):
    """Padding to a multiple of an unknown size compared expressions with zero, which SymPy cannot; products of
    windows went to XLA."""
    pool = lambda x: lax.reduce_window(x, start, fold, (2, 2), (2, 2), "SAME")
    dynacomp.reset()
    compiled = dynacomp.jit(pool)
    for n in (5, 8, 3, 9):
        x = jnp.asarray(np.random.RandomState(n).randn(n, 7), jnp.float32)
        np.testing.assert_allclose(compiled(x), pool(x), rtol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["externs"] and set(stats["regions"]) == {"cpp"}


def test_a_window_that_does_not_fit():
    x = np.ones((2, 1, 17), np.float32)
    same_as_eager(lambda x: lax.reduce_window(x, np.float32(1), lax.mul, (2, 3, 3), (1, 2, 3), "VALID"), x)
