"""`sum`, `list` and `jax.tree.map` as loops: the same values, and the same exceptions."""

import jax
import pytest

from dynacomp.capture.base.loops_py import as_list, map_each, summed


def test_the_loops_are_what_they_stand_for():
    assert summed(iter([1, 2.5]), 3) == sum([1, 2.5], 3)
    assert as_list(iter("ab")) == list("ab")
    items = [{"a": 1}, (2, [3])]
    assert map_each(lambda x: x + 1, iter(items)) == jax.tree.map(lambda x: x + 1, items)


def test_what_cannot_be_added_is_refused():
    with pytest.raises(TypeError):
        summed([object()], 0)
