"""Tables of what two Values decide together."""

import pytest

from dynacomp.capture.arithmetic.pairs import Pair, Pairs
from dynacomp.capture.values.computed import NumberV, SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV


class DequeV(ListV):
    """A kind made of another."""


ONE, SEVERAL, SIZE = Const(1), ListV([]), SizeV(None, 3)


def _says(what):
    return Pair(lambda asked, a, b: what, some=(ListV,))


def test_the_first_answer_counts_and_none_is_no_answer():
    table = Pairs(Pair(lambda a, b: None), Pair(lambda a, b: (a, b)), Pair(lambda a, b: "never"))
    assert table.decide(ONE, SIZE) == (ONE, SIZE)


def test_what_is_given_before_goes_first():
    assert Pairs(Pair(lambda *given: given)).decide(ONE, SIZE, "cap", "op") == ("cap", "op", ONE, SIZE)


@pytest.mark.parametrize(("a", "b"), [(SEVERAL, ONE), (ONE, SEVERAL), (SEVERAL, SEVERAL), (DequeV([]), ONE)])
def test_a_row_of_some_kinds_is_asked_for_either_operand_and_for_kinds_made_of_them(a, b):
    table = Pairs(_says("some"), Pair(lambda asked, a, b: "other"))
    for _ in range(2):  # looked up, then remembered
        assert table.decide(a, b, None) == "some"
        assert table.decide(ONE, SIZE, None) == "other"


def test_a_row_of_every_kind_is_asked_only_for_both():
    table = Pairs(Pair(lambda a, b: "numbers", some=(SizeV,), every=(Const, SizeV)), Pair(lambda a, b: "other"))
    assert [table.decide(a, b) for a, b in ((SIZE, ONE), (ONE, SIZE), (SIZE, SIZE))] == ["numbers"] * 3
    assert table.decide(ONE, ONE) == table.decide(SIZE, SEVERAL) == "other"


def test_false_is_an_answer_and_a_table_without_one_says_of_which_kinds():
    assert Pairs(Pair(lambda a, b: False)).decide(ONE, ONE) is False
    with pytest.raises(LookupError, match="Const and TupleV"):
        Pairs(Pair(lambda a, b: 1, some=(NumberV,))).decide(ONE, TupleV([]))
