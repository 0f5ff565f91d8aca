"""What must go to XLA, and the reasons that it gives."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import ExternStep, TemplateStep
from dynacomp.lowering.primitives.translate import lower_function


def steps(function, *shapes):
    args = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return schedule(lower_function(function, *args)).steps


def convolve(x, w):
    return lax.conv(x, w, (1,) * (x.ndim - 2), "SAME")


@pytest.mark.parametrize(
    ("rank", "dtype", "reason"),
    [
        (3, jnp.float32, None),
        (4, jnp.float32, "a convolution over 4 spatial dimensions"),
    ],
)
def test_convolutions(rank, dtype, reason):
    (step,) = steps(convolve, ((2, 3, *(6,) * rank), dtype), ((4, 3, *(3,) * rank), dtype))
    assert isinstance(step, ExternStep if reason else TemplateStep)
    assert getattr(step, "why", None) == reason


def test_a_loop_whose_body_holds_what_only_xla_computes_goes_there_as_a_whole():
    rooted = lambda x: lax.scan(lambda c, a: (lax.linalg.hessenberg(c)[0] * a, c.sum()), x, jnp.arange(20.0))
    outer = lambda x: lax.fori_loop(0, x[0, 0].astype(int), lambda i, y: rooted(y)[0], x)
    reasons = [s.why for s in steps(outer, ((4, 4), jnp.float32)) if isinstance(s, ExternStep)]
    assert reasons == ["`hessenberg` has no lowering (inside a `scan`) (inside a `while_loop`)"]


def test_branches_with_and_without_residuals_in_a_loop_stay_native():
    """The branch that a gradient has nothing to keep of says `empty2`."""
    step = lambda c, a: (lax.cond(a > 0, jnp.sin, lambda v: v * a, c), c.sum())
    loss = lambda y: sum(x.sum() for x in jax.tree.leaves(lax.scan(step, y, jnp.linspace(-1, 1, 30))))
    assert not any(isinstance(s, ExternStep) for s in steps(jax.grad(loss), ((3,), jnp.float32)))
