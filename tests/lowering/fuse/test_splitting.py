"""lowering.fuse.splitting: folds down few columns keep partial results enough for the lanes of a register."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.kernel_ir.machine import GPU
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function

FUNCTIONS = {
    "colours": lambda x: x.sum((0, 1)),
    "largest": lambda x: jnp.abs(x - 1).max((0, 1)),
    "one axis": lambda x: x.sum(1),
    "softmax": lambda x: jax.nn.softmax(x * 0.25, axis=1),
    "normalised": lambda x: (x - x.mean((0, 1))) / (1 + x.var((0, 1))),
    "integers": lambda x: jnp.sum(x.astype(jnp.uint8), (0, 1)),
    "a scale": lambda x: (x * x[0, 0]).sum((0, 1)),
    "where": lambda x: jnp.argmax(x, 1),
}


def lowered(fn, x):
    return schedule(optimise(lower_function(fn, x)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(6, 128, 3), (400, 400, 3), (5, 96, 7), (3, 67, 3), (2, 40, 16)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_columns(name, shape):
    fn, x = FUNCTIONS[name], (jnp.arange(float(np.prod(shape))).reshape(shape) % 37) / 8
    want = np.asarray(fn(x))
    (got,) = schedules.run(lowered(fn, x), (np.asarray(x),), {})
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(dynacomp.jit(fn)(x), want, rtol=2e-5, atol=1e-6)


def test_lanes_go_over_rows_of_columns():
    """Three lanes of a register of sixteen, and their rest masked: a tenth as fast."""
    for rows, lanes in ((128, 48), (67, 3)):
        kernel = lowered(lambda x: x.sum(1), jnp.ones((6, rows, 3), jnp.uint8)).steps[0].kernel
        assert re.search(f"vector i. < {lanes}:", text(kernel)), text(kernel)


@pytest.mark.parametrize(("fn", "parts"), [(lambda x: x.sum(), "1024"), (lambda x: x.max(0), "108"),
                                           (lambda x: x.sum(1), None)], ids=["all", "columns", "rows"])
def test_a_gpu_takes_more_parts(fn, parts):
    x = (jnp.arange(2048.0 * 300).reshape(2048, 300) % 37) / 8
    graph = lower_function(fn, x)
    planned = schedule(graph, GPU)
    sizes = {str(b.shape[0]) for n, b in planned.buffers.items() if n.endswith("_part")}
    assert sizes == ({parts} if parts else set())
    (got,) = schedules.run(planned, (np.asarray(x),), {})
    np.testing.assert_allclose(got, fn(x), rtol=2e-5)
