"""Reads at computed positions: clamped or masked as JAX's mode says, with no test where ranges decide it."""

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax import lax

from dynacomp.lowering.kernel_ir.loops import Apply, Index, Load
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.rules.gather import as_index, checked, clamped, fill_value
from dynacomp.lowering.rules.reader import INT32, INT64, Reader
from dynacomp.lowering.sizes.symbols import symbol
from tests.lowering.closed import same_as_eager, scheduled

I = symbol("i")
X = np.arange(30, dtype=np.float32).reshape(5, 6)
AT = np.int32([-9, -1, 0, 2, 4, 5, 99])


@pytest.fixture
def reader():
    made = Reader({}, set())
    made.ranges[I] = sympy.Integer(5)
    return made


def kernel(function, *args):
    (step,) = scheduled(function, *args).steps
    return text(step.kernel)


def test_integers_made_of_positions_are_positions(reader):
    i = reader.index(I, INT32)
    assert as_index(reader.apply("add", reader.apply("mul", i, reader.const(2, INT32)), reader.const(3, INT32))) \
        == 2 * I + 3
    assert as_index(reader.apply("convert", i, dtype=INT64)) == I
    assert as_index(reader.apply("convert", i, dtype=np.dtype("float32"))) is None
    assert as_index(Load("x", I, INT32)) is None and as_index(Apply("max", (i, i), INT32)) is None


def test_a_position_in_range_is_left_alone(reader):
    assert clamped(reader, reader.index(I, INT32), sympy.Integer(4)) == I
    assert checked(reader, reader.index(I, INT32), sympy.Integer(4)) == (I, None)
    found, inside = checked(reader, reader.index(I, INT32), sympy.Integer(3))
    assert isinstance(reader.values[found], Index) and inside.fn in ("le", "lt", "and")
    assert clamped(reader, Load("x", I, INT32), sympy.Integer(0)) == 0, "there is only one place"


@pytest.mark.parametrize(("dtype", "last", "wide"), [
    ("int8", 4, INT32), ("int32", 4, INT32), ("int64", 4, INT64), ("uint8", 4, INT32), ("uint32", 4, INT32),
    ("uint32", 2**31, INT64), ("uint64", 4, INT64)])
def test_positions_are_as_wide_as_they_must_be(reader, dtype, last, wide):
    start = Load("x", I, np.dtype(dtype))
    for found in (clamped(reader, start, sympy.Integer(last)), checked(reader, start, sympy.Integer(last))[0]):
        assert reader.values[found].dtype == wide and reader.ranges[found] == last + 1


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_modes_beyond_the_ends(mode):
    at = AT[2:5] if mode == "promise_in_bounds" else AT
    x = jnp.asarray(X)
    same_as_eager(lambda x, i: x.at[i].get(mode=mode), x, at)
    same_as_eager(lambda x, i: x.at[:, i].get(mode=mode, fill_value=7), x, at)


def test_what_fills_is_of_the_dtype():
    for dtype in ("float32", "int8", "uint16", "bool"):
        outside = np.asarray(jnp.zeros(3, dtype).at[jnp.array([9])].get(mode="fill"))[0]
        np.testing.assert_array_equal(np.asarray(fill_value(outside.dtype, None), outside.dtype), outside)
    assert np.isnan(fill_value(jnp.zeros(1, "bfloat16").dtype, None)) and fill_value(np.dtype("float32"), 3) == 3.0


def test_only_filling_reads_are_masked():
    gets = {mode: kernel(lambda x, i, mode=mode: x.at[i].get(mode=mode), X, AT) for mode in ("clip", "fill")}
    assert "nan" in gets["fill"] and " if " in gets["fill"]
    assert "min(max(" in gets["clip"] and " if " not in gets["clip"]


@pytest.mark.parametrize("start", [-2, 0, 3, 17])
def test_slices_at_computed_places(start):
    at = np.int32(start)
    same_as_eager(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 6)), X, at)
    same_as_eager(lambda x, i: lax.dynamic_update_slice(x, -x[:2, :3], (i, i)), X, at)
    same_as_eager(lambda x, i: lax.dynamic_update_slice(x, -x, (i, i)), X, at)


def test_a_batched_gather():
    same_as_eager(lambda x, i: jnp.take_along_axis(x, i, 1), X, np.int32(np.arange(20).reshape(5, 4) % 6))
