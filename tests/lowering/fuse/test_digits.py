"""lowering.fuse.digits: lanes that take their position apart become two loops, and stay right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import KernelStep
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function


def patches(x, size=8):
    n, h, w, c = x.shape
    cut = x.reshape(n, h // size, size, w // size, size, c).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(n, -1, size * size * c)


def windows(x):
    """Shifted ones, in half the numbers of channels."""
    return jnp.roll(patches(x, 4), 1, axis=1)[..., ::2] * 2


FUNCTIONS = {
    "patches": lambda x: patches(x) * 2,
    "by a matrix": lambda x: patches(x) @ jnp.cos(jnp.arange(8 * 8 * 3 * 5.0)).reshape(-1, 5),
    "both ways": lambda x: jax.grad(lambda w: ((patches(x) @ w) ** 2).sum())(jnp.ones((8 * 8 * 3, 5)) / 64),
    "windows": windows,
    "shuffled": lambda x: x.reshape(2, 16, 16, 4, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 48, 128) + 1,
    "heads": lambda x: jnp.swapaxes(x.reshape(2, 64, 4, 24), 1, 2).reshape(2, -1) * 2,
    "two shapes": lambda x: (patches(x) + 1, x.reshape(96, 128).T * 2),
}
REFERENCES = {name: t.reference for name, t in TEMPLATES.items()}
IMAGE = jnp.asarray(np.random.RandomState(0).randn(2, 32, 64, 3).astype(np.float32))


def lowered(fn):
    return schedule(optimise(lower_function(fn, IMAGE)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    fn = FUNCTIONS[name]
    want = jax.tree.leaves(fn(IMAGE))
    interpreted = schedules.run(lowered(fn), (np.asarray(IMAGE),), REFERENCES)
    for got in (interpreted, jax.tree.leaves(dynacomp.jit(fn)(IMAGE))):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["patches", "by a matrix", "both ways", "heads"])
def test_no_lane_divides_its_position(name):
    kernels = [s.kernel for s in lowered(FUNCTIONS[name]).steps if isinstance(s, KernelStep)]
    for line in "".join(map(text, kernels)).splitlines():
        assert "FloorDiv(i2," not in line and "FloorMod(i2," not in line, line


def test_copies_of_other_shapes_do_not_share_lanes():
    """A matrix of patches and its transpose were one kernel, whose lanes divided their position four times over."""
    kernels = [s.kernel for s in lowered(FUNCTIONS["both ways"]).steps if isinstance(s, KernelStep)]
    assert all(len(k.outputs) == 1 for k in kernels)
