"""The list of passes as a value: every change is another list, and mistakes are told."""

import pytest

from dynacomp.driver.pass_list import CAPTURED, DEFAULT, KERNELS, PRIMITIVE, Pass, Passes, within
from dynacomp.lowering.passes.recompute import BUDGET


def mine(graph):
    return graph


def other(graph):
    return graph


def test_a_pass_goes_before_after_or_to_the_end_of_its_neighbours_level():
    listed = Passes().insert(mine, level=CAPTURED).insert(other).insert(mine, name="last", level=KERNELS)
    assert listed.names == ("mine", "other", "last")
    assert [p.level for p in listed.rows] == [CAPTURED, PRIMITIVE, KERNELS]
    between = listed.insert(mine, name="between", before="last").insert(other, name="second", after="mine")
    assert between.names == ("mine", "second", "other", "between", "last")
    assert [p.name for p in between.at(KERNELS)] == ["between", "last"] and listed.names == ("mine", "other", "last")


def test_lists_of_equal_passes_are_one_key():
    one, two = (DEFAULT.insert(mine, before="dead_code") for _ in range(2))
    assert one == two and hash(one) == hash(two) and one != DEFAULT and one.remove("mine") == DEFAULT
    assert one.replace("mine", other).names == one.names and one.replace("mine", other) != one
    assert "primitive mine" in str(one).replace("  ", " ")


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda p: p.insert(mine, before="dead_code", after="fold_constants"), ValueError, "not both"),
    (lambda p: p.insert(mine, before="dead_cod"), ValueError, "did you mean 'dead_code'"),
    (lambda p: p.insert(mine, name="dead_code"), ValueError, "already"),
    (lambda p: p.insert(mine, level=KERNELS, before="dead_code"), ValueError, "over the primitive form"),
    (lambda p: p.insert(lambda g: g), ValueError, "needs a name"), (lambda p: p.remove("mine"), ValueError, "no pass"),
    (lambda p: p.insert(mine, level="nosuch"), ValueError, "none of captured, primitive, kernels"),
    (lambda p: p.insert("text", name="mine"), TypeError, "a name and a function"),
    (lambda p: Passes().remove("x"), ValueError, "there are: none"),
])
def test_mistakes_are_told_at_once(change, error, words):
    with pytest.raises(error, match=words):
        change(DEFAULT)


def test_a_row_has_a_function_that_can_be_part_of_a_key():
    class Unhashable:
        __hash__ = None

        def __call__(self, graph):
            return graph

    with pytest.raises(TypeError, match="unhashable"):
        Pass("mine", Unhashable())


def test_a_memory_budget_changes_one_pass():
    tight = within(DEFAULT, BUDGET / 2)
    assert within(DEFAULT, BUDGET) is DEFAULT and tight.names == DEFAULT.names
    assert [a.name for a, b in zip(tight.rows, DEFAULT.rows) if a != b] == ["recompute"]
    assert within(Passes(), BUDGET / 2) == Passes()
