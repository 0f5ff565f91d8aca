"""Which carries of a loop are changed in place, and that the Schedule's interpreter agrees with eager JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import LoopStep
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function

X = np.random.default_rng(0).normal(size=100).astype(np.float32)


def loop(body):
    return lambda x: lax.fori_loop(1, 29, body, x)


def swapped(i, state):
    x, y = state
    return y.at[i].set(1), x.at[i].set(2)


IN_PLACE = {
    "set": loop(lambda i, y: y.at[i].set(y[i - 1] + i)),
    "slice": loop(lambda i, y: lax.dynamic_update_slice(y, jnp.ones(3), (i,))),
    "chain": loop(lambda i, y: y.at[i].mul(y[3]).at[0].add(1.5)),
    "add_many": loop(lambda i, y: y.at[jnp.arange(3) * i].add(0.5)),
    "shift": loop(lambda i, y: y.at[1:].set(y[:-1])),
    "inner": loop(lambda i, y: lax.fori_loop(0, 19, lambda j, z: z.at[i * j].set(z[j] + 1), y)),
}
COPIED = {
    "read_by_the_second": loop(lambda i, y: y.at[i].mul(2).at[0].add(y[3])),
    "read_later": loop(lambda i, y: y.at[i].set(1) + 0 * y[0]),
    "whole": loop(lambda i, y: y * 2),
    "old_kept": lambda x: lax.scan(lambda y, _: (y.at[3].add(1), y), x, None, length=20),
    "swapped": lambda x: lax.fori_loop(0, 29, swapped, (x, x + 1)),
    "read_between": lambda x: lax.scan(lambda y, i: ((z := y.at[i].set(1)).at[i + 1].set(2), z[5]), x, jnp.arange(20)),
    "old_result": lambda x: lax.scan(lambda y, i: (y.at[i].set(1), y[i]), x, jnp.arange(20)),
    "small": lambda x: lax.fori_loop(0, 20, lambda i, y: y.at[i].set(1), x[:40]),
}


@pytest.mark.parametrize("name", [*IN_PLACE, *COPIED])
def test_in_place(name):
    fn = (IN_PLACE | COPIED)[name]
    plan = schedule(optimise(lower_function(fn, X)))
    (step,) = (s for s in plan.steps if isinstance(s, LoopStep))
    assert bool(step.body.in_place) == (name in IN_PLACE)
    found = schedules.run(plan, (X,), {n: row.reference for n, row in TEMPLATES.items()})
    for f, w in zip(found, jax.tree.leaves(fn(jnp.asarray(X))), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6)
