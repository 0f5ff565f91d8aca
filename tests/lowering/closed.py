"""Functions of arrays lowered to kernels alone, and run in NumPy, against eager JAX."""

import jax
import numpy as np

from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import ExternStep
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function, unwrap

REFERENCES = {name: row.reference for name, row in TEMPLATES.items()}
TOLERANCE = {2: 2e-2, 4: 1e-5, 8: 1e-12}
TIES = {"approx_top_k"}  # primitives that find places in the last dimension; which of equal numbers is not promised


def seams(function, *args):
    """Why XLA is needed, for each step that needs it."""
    return [s.why for s in scheduled(function, *args).steps if isinstance(s, ExternStep)]


def scheduled(function, *args):
    return schedule(optimise(lower_function(function, *args)))


def same_as_eager(function, *args, scale=1.0):
    """`function` needs no XLA, and its kernels give what eager JAX gives: dtypes, shapes, integers, and floats within
    `scale` times the tolerance of their width."""
    made = scheduled(function, *args)
    assert not [s.why for s in made.steps if isinstance(s, ExternStep)]
    inputs = tuple(np.asarray(unwrap(x)) for x in jax.tree.leaves(args))
    for got, want in zip(schedules.run(made, inputs, REFERENCES), jax.tree.leaves(function(*args)), strict=True):
        agree(got, unwrap(want), scale)


def agree(got, want, scale=1.0):
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    if got.dtype.kind == "c":
        size = np.nan_to_num(np.abs(want), nan=0, posinf=0)[..., None] * np.ones(2)
        apart = [np.stack([x.real, x.imag], -1) for x in (got, want)]
        close(*apart, TOLERANCE[got.dtype.itemsize // 2] * scale, size)
        return
    close(got, want, TOLERANCE[got.dtype.itemsize] * scale)


def close(got, want, limit, size=0):
    """Within `limit` of `want`, of one, or of `size`, whatever is largest; infinities and NaNs the same."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(np.isfinite(want) & (np.abs(got - want) <= limit * size), want, got)
    np.testing.assert_allclose(off, want, rtol=limit, atol=limit)


def untied(primitive, args, results):
    """`results`; where one of `TIES` names places, the numbers that stand there."""
    if primitive not in TIES:
        return results
    values, places = (np.asarray(unwrap(x)) for x in results)
    return [values, np.take_along_axis(np.asarray(args[0]), places, -1)]
