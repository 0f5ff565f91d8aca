"""Iterators as Values: their classes, and the counts that they are made of."""

import itertools

import pytest

from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.values.computed import SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.iterators import CountIterV, SeqIterV, StreamV, counters, is_sized
from dynacomp.capture.values.value import NotConstant, type_of


def count(stop=Const(3)):
    return CountIterV(Const(0), stop, Const(1))


def test_an_iterator_is_made_of_the_counts_of_its_parts():
    one, other = count(), count()
    assert counters(one) == [one]
    assert counters(StreamV("zip", [one, other])) == [one, other]
    assert counters(StreamV("map", [StreamV("enumerate", [one, other])])) == [one, other]
    assert counters(StreamV("rows", [one, TupleV([])])) == [one]  # the numbers of an array's rows


@pytest.mark.parametrize("it", [
    SeqIterV(ListV([])), Const(1), StreamV("filter", [count()]), StreamV("zip", [count(), SeqIterV(TupleV([]))]),
    StreamV("zip", [count()], state={"strict": True}), StreamV("zip", [count()], real=zip())])
def test_other_iterators_are_made_of_no_counts(it):
    assert counters(it) == []


def test_whether_a_size_ends_one():
    size = SizeV(Scope().symbol("n"), 5)
    assert is_sized([count(), count(size)]) and not is_sized([count()]) and not is_sized([])


@pytest.mark.parametrize(("kind", "cls"), [("zip", zip), ("chain", itertools.chain), ("islice", itertools.islice)])
def test_streams_have_the_classes_that_programs_see(kind, cls):
    assert type_of(StreamV(kind, [])) is cls
    with pytest.raises(NotConstant):
        type_of(StreamV("rows", []))


def test_an_iterator_remembers_the_changes_that_its_deque_had():
    seq = ListV([Const(1)])
    seq.changes = 4
    assert SeqIterV(seq).since == 4 and SeqIterV(TupleV([])).since == 0
