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
