"""Between which numbers whole-numbered expressions lie, and what that spares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Load
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.rules.limits import limits
from dynacomp.lowering.rules.reader import BOOL, Reader
from dynacomp.lowering.sizes.symbols import symbol
from tests.lowering.closed import scheduled

INT, BYTE, WORD = np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.int16)
I = symbol("i")
MOST = 2**31 - 1


@pytest.fixture
def reader():
    made = Reader({}, set())
    made.ranges[I] = 10
    return made


def clipped(reader, x, low, high):
    return reader.apply("min", reader.const(high, x.dtype), reader.apply("max", reader.const(low, x.dtype), x))


def of(reader, expr):
    return limits(expr, reader.ranges, reader.limits)


def test_limits(reader):
    x, small = (reader.intern(Load("x", I, d)) for d in (INT, BYTE))
    assert of(reader, x) == (-MOST - 1, MOST) and of(reader, small) == (0, 255)
    assert of(reader, reader.index(3 * I + 2, INT)) == (0, 29)
    assert of(reader, reader.index(I - 2, INT)) == (-MOST - 1, MOST)
    assert of(reader, reader.index(300 * I, BYTE)) == (0, 255)  # it wraps
    assert of(reader, clipped(reader, x, -3, 8)) == (-3, 8)
    assert of(reader, reader.apply("convert", small, dtype=INT)) == (0, 255)
    assert of(reader, reader.apply("convert", clipped(reader, x, -1, 5), dtype=BYTE)) == (0, 255)
    assert of(reader, reader.apply("convert", clipped(reader, x, 1, 5), dtype=BYTE)) == (1, 5)
    number = reader.intern(Load("f", I, np.dtype(np.float32)))
    assert of(reader, reader.apply("convert", number, dtype=WORD)) == (-32768, 32767)
    condition = reader.intern(Load("c", I, BOOL))
    either = reader.apply("select", condition, clipped(reader, x, 2, 4), reader.const(9, INT))
    assert of(reader, either) == (2, 9)
    assert of(reader, reader.apply("add", either, either)) == (-MOST - 1, MOST)


def test_a_comparison_that_is_sure_is_a_constant(reader):
    x = clipped(reader, reader.intern(Load("x", I, INT)), 0, 9)
    answers = {("lt", 0): False, ("lt", 10): True, ("ge", 0): True, ("ge", 10): False, ("le", 9): True,
               ("le", -1): False, ("gt", 9): False, ("gt", -1): True}
    for (fn, value), answer in answers.items():
        assert reader.apply(fn, x, reader.const(value, INT)) == Const(answer, BOOL)
    for fn, value in [("lt", 9), ("ge", 1), ("le", 0), ("gt", 0), ("eq", 11)]:
        assert isinstance(reader.apply(fn, x, reader.const(value, INT)), Apply)


def test_a_second_clip_is_none(reader):
    x = clipped(reader, reader.intern(Load("x", I, INT)), 0, 9)
    assert clipped(reader, x, 0, 9) is x and clipped(reader, x, -5, 30) is x
    assert clipped(reader, x, 1, 9) is not x and clipped(reader, x, 0, 8) is not x
    assert clipped(reader, x, 12, 20) == reader.const(12, INT)


def test_limits_belong_to_expressions_not_to_their_addresses(reader):
    for k in range(200):  # made and dropped: memory is used again
        assert limits(Const(k, INT), {}, reader.limits) == (k, k)


def test_positions_that_are_clipped_once(tmp_path):
    fn = lambda x, i: x[jnp.clip(i, 0, 99)]
    x, i = np.arange(100, dtype=np.float32), np.array([-200, -1, 0, 5, 99, 100, 1 << 30, -1 << 31], np.int32)
    printed = "".join(text(s.kernel) for s in scheduled(fn, x, i).steps)
    assert printed.count("min(") == 1 and printed.count("max(") == 1 and "select" not in printed
    np.testing.assert_array_equal(dynacomp.jit(fn)(x, i), fn(x, i))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint32", "int16"])
def test_positions_are_as_wide_as_what_is_made_of_them(dtype):
    fn = lambda x: x + jax.lax.broadcasted_iota(x.dtype, (3, 70000), 1)
    x = jnp.ones((3, 70000), dtype)
    assert "i64" not in "".join(text(s.kernel) for s in scheduled(fn, x).steps)
    np.testing.assert_array_equal(np.asarray(dynacomp.jit(fn)(x), np.float32), np.asarray(fn(x), np.float32))
