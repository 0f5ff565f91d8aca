"""dynacomp.capture.portable.paths: the ways to objects without a name."""

from __future__ import annotations

import collections
import functools

import pytest

from dynacomp.capture.portable.paths import DEPTH, Finder, follow, steps
from tests.capture.portable.kit import Plain, made

Pair = collections.namedtuple("Pair", "one two")


def test_ways_to_objects_without_a_name():
    inner = made(Plain("deep"))
    held = Pair({"fn": functools.partial(inner, 1)}, [])
    finder = Finder()
    finder.add("root", held)
    for wanted in (inner, inner.__closure__[0].cell_contents, inner.__closure__[0]):
        root, path = finder.path(wanted)
        assert root == "root" and follow(held, path) is wanted
    assert finder.path(Plain(1)) is None
    with pytest.raises(LookupError):
        follow(Pair({}, []), (("item", 0), ("key", "fn")))


def test_no_way_is_longer_than_it_may_be():
    deep = end = Plain(1)
    for _ in range(DEPTH + 1):
        deep = (deep,)
    finder = Finder()
    finder.add("root", deep)
    assert finder.path(end) is None


def test_literals_lead_nowhere_and_a_module_is_found_by_its_name():
    assert not list(steps(1)) and not list(steps("text")) and not list(steps(globals()))
    assert dict(steps({"k": 1, Pair: 2})) == {("key", "k"): 1}  # keys that are no literals are not followed
