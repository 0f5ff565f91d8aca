"""Vector loops in C++: folds down columns take several registers in step only where a row has as many."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function


def total(x):
    return (x * x).sum(0)


def text(columns):
    return unit_source(schedule(lower_function(total, np.zeros((5, columns), np.float32))), False)


def test_what_a_row_is_too_short_for_is_not_compiled():
    short, some, long = map(text, (8, 32, 4096))
    assert "_u3" not in short and "_u3" in some and "_u3" in long
    assert "#if 32 >= 4 * (DC_VECTOR_BYTES / 4)" in some and "#if 4096" not in long


@pytest.mark.parametrize("columns", [8, 31, 32, 65])
def test_every_width_is_right(columns):
    x = jnp.arange(5.0 * columns).reshape(5, columns)
    np.testing.assert_allclose(dynacomp.jit(total)(x), total(x), rtol=1e-5, atol=1e-5)
