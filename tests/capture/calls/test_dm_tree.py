"""dm-tree's functions in C++: the same answers from Python, in one graph."""

import collections

import jax.numpy as jnp
import pytest

from dynacomp.capture.calls import dm_tree as rows
from tests.capture.program_kit import check_one_graph

P = collections.namedtuple("P", "x y")


class Inner(P):
    pass


class Attrs:
    __attrs_attrs__ = (P("a", 0)._replace(x="a"),)


class Fields(tuple):
    _fields = ("a", 1)


SEQUENCES = ({}, {}.keys(), range(3), collections.deque(), (), [], P(1, 2), Attrs())
NONE = ("a", b"a", bytearray(2), 1, None, jnp.ones(3), iter(()))


def test_what_has_parts():
    assert all(map(rows.is_sequence, SEQUENCES)) and not any(map(rows.is_sequence, NONE))
    assert rows.is_sequence({1}) is None  # of which the C++ warns


def test_named_tuples():
    found = [rows.is_namedtuple(x, strict) for x in (P(1, 2), Inner(1, 2), Fields(), ()) for strict in (False, True)]
    assert found == [True, True, True, False, False, False, False, False]
    assert rows.same_namedtuples(P(1, 2), collections.namedtuple("P", "x y")(1, 2))
    assert not rows.same_namedtuples(P(1, 2), Inner(1, 2))


def test_leaves_are_in_the_order_of_keys():
    assert rows.flatten({"b": [1, (2,)], "a": P(3, range(2))}) == [3, 0, 1, 1, 2]
    assert rows.flatten(collections.OrderedDict(b=1, a=None)) == [None, 1]
    assert rows.flatten(5) == [5] and rows.flatten([{1}]) is None


@pytest.mark.parametrize("a, b, types, alike", [
    ((1, 2), (3, 4), True, True), ((1, 2), [1, 2], True, None), ((1, 2), [1, 2], False, True),
    ({"a": 1}, {"b": 1}, True, None), (1, (1,), True, None), ((1,), (1, 2), True, None), (True, 1, True, True),
    (P(1, 2), Inner(1, 2), True, None), (P(1, 2), (1, 2), False, True), ([{"a": 1}], [{"a": 2}], True, True),
])
def test_structures_that_are_the_same_beyond_doubt(a, b, types, alike):
    assert rows.are_alike(a, b, types) is alike


def test_programs_with_dm_tree_are_one_graph():
    tree = pytest.importorskip("tree")

    def program(x, n):
        params = {"w": x, "b": [P(x + 1, n), (x * 2,)]}
        doubled = tree.map_structure(lambda a, b: a * 2 + b, params, params)
        tree.assert_same_structure(params, doubled)
        total = sum(jnp.sum(leaf) for leaf in tree.flatten(doubled))
        by_path = tree.map_structure_with_path(lambda path, leaf: (len(path), leaf), doubled)
        return tree.unflatten_as(params, tree.flatten(doubled)), total, by_path, tree.is_nested(params["b"])

    check_one_graph(program, (jnp.arange(3.0), 1), (jnp.arange(4.0), 1), captures=2)
