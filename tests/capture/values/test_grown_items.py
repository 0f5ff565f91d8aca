"""What a round of a loop appends, as data."""

import numpy as np

from dynacomp.capture.reconstruct.runtime import run_items
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.grown_items import Fixed, Leaf, Many, Run, kinds_of, parts_of


def test_a_shape_says_how_items_are_made():
    shape = Many(tuple, (Leaf(0), Many(dict, (Leaf(1, int), Fixed(Const("a"))), ("n", "s"))))
    fixed = []
    assert len(list(shape.leaves())) == 2 and shape.spec(fixed) == (
        tuple, (), (("leaf", 0), (dict, ("n", "s"), (("leaf", 1), ("fixed", 0)))))
    assert [v.value for v in fixed] == ["a"]
    assert kinds_of(Run(2, (shape,), [None, None])) == (None, int)


def test_items_of_all_rounds():
    specs = ((tuple, (), (("leaf", 0), ("fixed", 0))), ("leaf", 0))
    assert run_items(2, specs, (int,), (np.array([3, 4]),), ("a",)) == [(3, "a"), 3, (4, "a"), 4]


def test_items_without_arrays():
    assert run_items(3, (("fixed", 0),), (), (), (None,)) == [None] * 3


def test_bounds_of_numbers_make_no_other_shape():
    assert Leaf(0, int, 0, 3) == Leaf(0, int, 0, 9) != Leaf(0)
    assert Fixed(Const(1)) == Fixed(Const(1)) != Fixed(Const(True))


def test_a_list_that_no_loop_filled():
    items = [Const(1), Const(2)]
    assert parts_of(ListV(items)) == items
