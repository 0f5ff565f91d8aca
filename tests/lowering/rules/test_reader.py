"""Expressions as a Reader makes them: one object for what is equal, and simpler only where no bit changes."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import PLACEHOLDER, Node
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Index, Load, Ref
from dynacomp.lowering.rules.reader import BOOL, INT32, Reader, cost, walk
from dynacomp.lowering.sizes.symbols import symbol
from tests.lowering.closed import same_as_eager

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
I, J = symbol("i"), symbol("j")


@pytest.fixture
def reader():
    made = Reader({}, set())
    made.ranges[I] = 10
    return made


def x(reader, index=I, dtype=F32):
    return reader.intern(Load("x", index, dtype))


def test_equal_expressions_are_one_object(reader):
    made = [reader.apply("add", x(reader), reader.const(1.5, F32)) for _ in range(2)]
    assert made[0] is made[1]
    assert reader.const(0.0, F32) is not reader.const(-0.0, F32)
    assert reader.const(math.nan, F32) is reader.const(math.nan, F32)
    assert x(reader) is not x(reader, dtype=F64) and x(reader) is not x(reader, J)


@pytest.mark.parametrize(("fn", "value", "same"), [
    ("mul", 1.0, True), ("div", 1.0, True), ("max", -math.inf, True), ("mul", 0.0, False), ("add", 0.0, False),
    ("sub", 0.0, False), ("max", 0.0, False), ("mul", -1.0, False), ("div", 3.0, False)])
def test_what_changes_no_bit_goes(reader, fn, value, same):
    made = reader.apply(fn, x(reader), reader.const(value, F32))
    assert (made is x(reader)) == same
    if not same:
        assert isinstance(made, Apply) and made.fn == fn


@pytest.mark.parametrize(("by", "exact"), [(2.0, True), (0.125, True), (-4.0, True), (3.0, False), (2.0**-20, False)])
def test_dividing_by_a_power_of_two_is_a_product(reader, by, exact):
    made = reader.apply("div", x(reader), reader.const(by, F32))
    assert made.fn == ("mul" if exact else "div") and made.args[1].value == (1 / by if exact else by)


def test_constants_are_computed_in_their_own_type(reader):
    big = reader.apply("add", reader.const(2**31 - 1, INT32), reader.const(1, INT32))
    assert big == Const(-(2**31), INT32)
    third = reader.apply("div", reader.const(1.0, F32), reader.const(3.0, F32))
    assert third.value == float(np.float32(1) / np.float32(3))


def test_choices_that_are_known(reader):
    yes, no, a, b = reader.const(True, BOOL), reader.const(False, BOOL), x(reader), x(reader, J)
    which = reader.intern(Load("which", I, BOOL))
    assert reader.apply("select", yes, a, b) is a and reader.apply("select", no, a, b) is b
    assert reader.apply("select", which, a, a) is a and reader.apply("select", which, yes, no) is which
    assert reader.apply("and", yes, which) is which and reader.apply("and", no, which) is no
    assert reader.apply("or", yes, which) is yes
    assert reader.all_of(None, yes, which, which) is which and reader.all_of(None, yes) is None


def test_what_ranges_decide_is_no_comparison(reader):
    assert reader.compare("lt", I, sympy.Integer(10)) == Const(True, BOOL)
    assert reader.compare("ge", I, sympy.Integer(0)) == Const(True, BOOL)
    asked = reader.compare("lt", I, sympy.Integer(9))
    assert asked.fn == "lt" and {a.dtype for a in asked.args} == {INT32}
    assert reader.compare("lt", I * 2**40, sympy.Integer(9)).args[0].dtype == np.dtype(np.int64)


def test_indices_that_are_numbers_are_constants(reader):
    assert reader.index(I - I + 3, INT32) == Const(3, INT32)
    assert isinstance(reader.index(I + 3, INT32), Index)
    assert reader.apply("convert", reader.index(I, INT32), dtype=np.dtype(np.int64)).dtype == np.dtype(np.int64)


def test_variables_are_one_for_each_extent_and_depth(reader):
    assert reader.variable(0, 1) == 0 and reader.variable(0, 5) is reader.variable(0, 5)
    assert reader.variable(0, 5) != reader.variable(0, 6) and reader.variable(0, 5) != reader.variable(1, 5)
    a, one, b = reader.point((5, 1, 7))
    assert one == 0 and reader.ranges[a] == 5 and reader.ranges[b] == 7 and b == reader.variable(1, 7)


def test_walks_go_through_masks_and_positions_once_children_first(reader):
    where = reader.intern(Load("where", I, INT32))
    at = reader.position(where, 10)
    mask = reader.compare("lt", I, sympy.Integer(9))
    masked = reader.intern(Load("x", at, F32, mask, reader.const(0.0, F32)))
    twice = reader.apply("mul", masked, masked)
    order = list(walk(reader, [twice, masked]))
    assert len(order) == len(set(map(id, order))) and order[-1] is twice
    assert {id(where), id(mask), id(masked)} <= set(map(id, order)) and order.index(where) < order.index(masked)
    assert masked.children == (mask, reader.const(0.0, F32)) and Ref("a", F32).children == ()
    assert cost(reader, twice) > cost(reader, masked) > 0


def test_reads_that_lie_inside_need_no_mask():
    """So what stands under a mask and beside it is one value. A position from data is only in range under its mask."""
    made = lambda name, shape, dtype: Node(PLACEHOLDER, name, None, (), {}, Aval(shape, np.dtype(dtype)))
    number, row, empty = made("number", (), "int32"), made("row", (10,), "float32"), made("empty", (0,), "float32")
    reader = Reader({}, {"number", "row", "empty"})
    reader.ranges |= {I: sympy.Integer(10), J: sympy.Integer(11)}
    mask = reader.intern(Load("mask", I, BOOL))
    found = reader.position(reader.read(number, ()), 10)
    for node, at, safe in ((number, (), True), (row, (I,), True), (row, (J,), False), (row, (I - 1,), False),
                           (row, (found,), False), (empty, (sympy.Integer(0),), False)):
        under = reader.read_under(mask, node, at)
        assert (under is reader.read(node, at)) == safe == (under.mask is None), (node.name, at)


def test_positions_made_of_values_are_computed_as_values():
    """An index takes the lanes of a value apart; sums of multiples wrap as the conversion would."""
    reader = Reader({}, set())
    value = reader.intern(Load("x", symbol("i"), np.dtype(np.int32)))
    at = reader.position(value, sympy.Integer(33))
    assert reader.index(at, np.dtype(np.int32)) is value
    assert reader.index(at, np.dtype(np.float32)) is reader.apply("convert", value, dtype=np.dtype(np.float32))
    small = np.dtype(np.uint8)
    made = reader.index(5 - 3 * at + symbol("j"), small)
    assert "index(at" not in str(made) and reader.index(symbol("j") + 5, small) in made.args
    assert isinstance(reader.index(at // 2, small), Index) and isinstance(reader.place(at), Index)


@pytest.mark.parametrize("fn", (
    lambda x, i: jnp.searchsorted(jnp.linspace(-3, 3, 33), x), lambda x, i: jnp.arange(50, dtype=jnp.uint8)[i * 3],
    lambda x, i: (jnp.arange(9.0) * 2 + 1)[i], lambda x, i: jnp.arange(100)[::-2][i], lambda x, i: jnp.eye(9)[i, i]))
def test_values_at_computed_positions(fn):
    x = np.float32([-4, -3, -0.1, 0, 2.99, 3, np.nan, np.inf, -np.inf])
    same_as_eager(fn, x, np.int32([0, 1, 8, -1, -9, 7, 3, 100, -100]))
