"""Every region through the Schedule and its interpreter against eager JAX."""

import jax
import numpy as np
import pytest

from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering import schedule_interp
from dynacomp.lowering.fusion import schedule
from dynacomp.lowering.loops_text import parse, text
from dynacomp.lowering.loops_verify import verify
from dynacomp.lowering.schedule import KernelStep
from dynacomp.lowering.translate import lower_function
from tests.lowering.regions import REGIONS

REFERENCES = {name: row.reference for name, row in TEMPLATES.items()}


def assert_same(got, want, rtol=2e-5):
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    rtol = 1e-2 if want.dtype.itemsize == 2 else rtol
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.nanmax(np.abs(want), initial=0)))


def check_kernels(plan):
    """Every kernel is well formed and reads back from its own text."""
    for kernel in {id(s.kernel): s.kernel for s in plan.steps if isinstance(s, KernelStep)}.values():
        verify(kernel)
        assert parse(text(kernel)) == kernel, text(kernel)


@pytest.mark.parametrize("name", REGIONS)
def test_region(name):
    fn, args, kernels = REGIONS[name]
    args = tuple(map(jax.numpy.asarray, args))
    plan = schedule(lower_function(fn, *args))
    check_kernels(plan)
    got = schedule_interp.run(plan, args, REFERENCES)
    for g, w in zip(got, jax.tree.leaves(fn(*args)), strict=True):
        assert_same(g, w)
    if kernels is not None:
        assert len(plan.steps) == kernels and all(isinstance(s, KernelStep) for s in plan.steps)
