"""Neighbouring loops as one: only where every index says the same, for all values of the loop variables."""

import itertools

import pytest
import sympy

from dynacomp.lowering.fuse.merging import SHORT, joined, merged
from dynacomp.lowering.sizes.symbols import size, symbol

I, J, K, N = symbol("i"), symbol("j"), symbol("k"), size("n")


def numbers(loops, index):
    """The values of an index, in the order of the loops."""
    extents = [range(int(sympy.sympify(e).subs(N, 3))) for _, e in loops]
    at = [{v: x for (v, _), x in zip(loops, point)} for point in itertools.product(*extents)]
    return [int(sympy.sympify(index).subs(N, 3).subs(values)) for values in at]


@pytest.mark.parametrize(("loops", "indices", "left"), [
    ([(I, 4), (J, 5)], [5 * I + J], 1),
    ([(I, 4), (J, 5)], [5 * I + J, I], 2),  # the other index needs to know them apart
    ([(I, 4), (J, 5)], [6 * I + J], 2),  # a padded row
    ([(I, 4), (J, 5)], [J, sympy.Integer(0)], 2),
    ([(I, 4), (J, 5)], [sympy.Integer(7)], 1),
    ([(I, N), (J, 5)], [5 * I + J], 1),
    ([(I, 2), (J, N)], [N * I + J, 2 * N * I + 2 * J], 1),
    ([(I, 2), (J, 3), (K, N)], [3 * N * I + N * J + K], 1),
    ([(I, 2), (J, 3), (K, N)], [3 * I + J], 2),
    ([(I, 2), (J, 3), (K, N)], [N * J + K], 2),
    ([(I, 4)], [I], 1),
])
def test_merged_loops_go_through_the_same_places_in_the_same_order(loops, indices, left):
    loops = [(v, sympy.sympify(e)) for v, e in loops]
    fewer, changes = merged(loops, indices)
    assert len(fewer) == left
    for index in indices:
        assert numbers(fewer, sympy.sympify(index).xreplace(changes)) == numbers(loops, index)


def test_short_lanes_are_joined_with_the_loop_around_them():
    outer, inner = ((I, sympy.Integer(6)), (J, sympy.Integer(4))), ((K, sympy.Integer(3)),)
    loops, changes = joined(outer, inner, [4 * I + J, 12 * I + 3 * J])
    assert loops == ((J, 24),)
    assert numbers(loops, (4 * I + J).xreplace(changes)) == numbers(outer, 4 * I + J)


@pytest.mark.parametrize(("outer", "inner", "index"), [
    (((I, 6), (J, SHORT)), ((K, 3),), 4 * I + J), (((I, 6), (J, 4)), (), 4 * I + J),
    (((J, 4),), ((K, 3),), J), (((I, 6), (J, 4)), ((K, 3),), 5 * I + J + K)])
def test_they_stay_where_lanes_are_long_or_an_index_would_need_divisions(outer, inner, index):
    outer, inner = (tuple((v, sympy.sympify(e)) for v, e in loops) for loops in (outer, inner))
    assert joined(outer, inner, [index]) == (outer, {})
