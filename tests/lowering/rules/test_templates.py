"""Which products are templates, and which stay loops."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import TemplateStep
from dynacomp.lowering.interpret.schedules import run
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


HALF = jnp.bfloat16


@pytest.mark.parametrize("fn", [
    lambda x, w: x @ w.astype(jnp.float32),
    lambda x, w: w.T.astype(jnp.float32) @ x.T,
    lambda x, w: x.astype(HALF).astype(jnp.float32) @ w.astype(jnp.float32),
    lambda x, w: jnp.einsum("bk,kn->nb", x, w.reshape(-1, 2, 128).astype(jnp.float32).reshape(w.shape)),
    lambda x, w: x[0] @ w.astype(jnp.float32),
])
def test_products_read_floats_of_16_bits_where_they_lie(fn):
    """No float32 copy of the weights is made, nor one of the inputs; the values are those of one."""
    x, w = jnp.linspace(-1, 1, 9 * 256).reshape(9, 256), jnp.linspace(-2, 2, 256 * 256).reshape(256, 256).astype(HALF)
    graph = lower_function(fn, x, w)
    plan = schedule(graph)
    (step,) = (s for s in plan.steps if isinstance(s, TemplateStep))
    assert any(plan.buffers[o].dtype == HALF for o in step.operands)
    assert not any(b.dtype == jnp.float32 and b.shape == w.shape for b in plan.buffers.values())
    (found,) = run(plan, (x, w), {"matmul": TEMPLATES["matmul"].reference})
    np.testing.assert_allclose(found, fn(x, w), rtol=2e-5, atol=1e-4)


def test_conversions_that_are_no_widening_are_made():
    x, w = jnp.ones((9, 64)), jnp.ones((64, 64), jnp.int8)
    for fn in (lambda x, w: x @ w.astype(jnp.float32), lambda x, w: (x @ x.T).astype(HALF) @ x.astype(HALF)):
        plan = schedule(lower_function(fn, x, w))
        for step in (s for s in plan.steps if isinstance(s, TemplateStep)):
            assert len({plan.buffers[o].dtype for o in step.operands}) == 1
