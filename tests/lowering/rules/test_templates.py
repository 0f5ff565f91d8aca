"""Which products are templates, and which stay loops."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import TemplateStep
from dynacomp.lowering.primitives.translate import lower_function

V, W, B = jnp.ones(512), jnp.ones((512, 256)), jnp.ones((4, 512, 256))


def times(v, w):
    return v @ w


@pytest.mark.parametrize(("fn", "args", "template"), [
    (times, (V, W), True),                                                  # rows add up
    (lambda v, w: w.T @ v, (V, W), True),
    (lambda v, w: w @ v, (V, W.T), False),                                  # each row folds: a loop does that well
    (lambda v, w: v @ (w * 2), (V, W), False),                              # the matrix is computed on the way
    (times, (V[:32], W[:32, :32]), False),
    (lambda v, b: jnp.einsum("bk,bkn->bn", v, b), (jnp.ones((4, 512)), B), True),
])
def test_a_vector_times_a_large_matrix_whose_rows_add_up_is_a_template(fn, args, template):
    steps = schedule(lower_function(fn, *args)).steps
    assert any(isinstance(s, TemplateStep) for s in steps) == template


def test_small_products_along_both_operands_are_no_loops():
    """Loops would fold a register for each of their results; where one operand lies across, they would not."""
    x, deep, wide = (jnp.ones(s) for s in ((16, 32), (8, 32), (32, 8)))
    is_template = lambda fn, *args: [isinstance(s, TemplateStep) for s in schedule(lower_function(fn, *args)).steps]
    assert is_template(lambda x, w: x @ w.T, x, deep) == [True]
    assert is_template(times, x, wide) == [False]
    assert is_template(lambda x, w: x @ w.T, x[:2], deep) == [False], "few results"
