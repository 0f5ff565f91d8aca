"""Objects that are their value, and those of which CPython keeps one."""

import collections

import numpy as np
import pytest

from dynacomp.capture.base.hashes import hashes_as_text
from dynacomp.capture.base.literals import is_literal, is_single, leaves

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("obj, literal, single", [
    (5, True, True), (257, True, False), (-6, True, False), (None, True, True), ((), True, True),
    ((1, "a"), True, False), ("a", True, False), (..., True, True), ([], False, False), ((1, []), False, False),
    (frozenset({1}), True, False),
    (np.float32(1), False, False), (True, True, True), (1.0, True, False), (Point(1, 2), False, False)], ids=repr)
def test_literals_and_those_that_there_is_one_of(obj, literal, single):
    assert is_literal(obj) is literal and is_single(obj) is single


def test_what_holds_all_that_were_before_it_is_gone_through_once():
    nested = [frozenset()]
    for _ in range(60):
        nested.append(frozenset(nested))
    assert is_literal(nested[-1]) and hashes_as_text(nested[-1]) and not list(leaves(nested[-1]))
    assert not is_literal((nested[-1], [])) and set(leaves((1, (2, "a")))) == {1, 2, "a"}
