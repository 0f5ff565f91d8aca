"""`control_flow.iterations`: what one iteration may change, and between which numbers a range counts."""

import collections

import pytest

from dynacomp.capture.control_flow.iterations import is_float, may_grow, range_of
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.values.computed import ScalarV, SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.iterators import CountIterV
from dynacomp.capture.values.sources import Local


@pytest.mark.parametrize(("first", "stop", "step", "low", "high"), [
    (0, 5, 1, 0, 5), (0, 5, 2, 0, 6), (5, 0, -1, 0, 5), (5, 0, -2, -1, 5), (3, 3, 1, 3, 3)])
def test_a_range_counts_between_its_ends(first, stop, step, low, high):
    assert range_of(CountIterV(Const(first), Const(stop), Const(step))) == (low, high)


def test_a_range_to_a_size_counts_as_far_as_the_size_may_reach():
    low, high = range_of(CountIterV(Const(0), SizeV(Scope().symbol("n"), 4), Const(1)))
    assert low == 0 and high > 1 << 31
    assert range_of(CountIterV(Const(0), Const(None), Const(1))) is None  # itertools.count
    assert range_of(CountIterV(ScalarV(1), Const(5), Const(1))) is None


def test_only_new_lists_may_grow():
    assert may_grow(ListV([])) and may_grow(ListV([Const(1)]))
    for other in (ListV([], real=[]), ListV([], collections.deque), TupleV([]), Const([])):
        assert not may_grow(other)


def test_floats_that_python_knows_in_each_round():
    assert is_float(Const(1.5)) and is_float(ScalarV(1.5, source=Local(0, "x")))
    assert not is_float(Const(1)) and not is_float(ScalarV(1)) and not is_float(Const(True)) and not is_float(ListV([]))
