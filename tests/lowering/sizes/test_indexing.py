"""Index arithmetic: what is taken apart is put together again, and divisions vanish where they may."""

import numpy as np
import pytest
import sympy

from dynacomp.lowering.interpret.kernels import value_of
from dynacomp.lowering.sizes.indexing import (
    FloorDiv,
    FloorMod,
    coefficient,
    divmod_index,
    flat,
    hint,
    reshape_at,
    unflatten,
    upper,
)
from dynacomp.lowering.sizes.symbols import size, symbol

B, S = size("b"), size("s")
I = sympy.Integer


def variables(*extents):
    at = tuple(symbol(f"i{k}") for k in range(len(extents)))
    return at, dict(zip(at, map(sympy.sympify, extents)))


def test_flat_is_row_major():
    at, _ = variables(2, 3, 4)
    assert flat(at, (I(2), I(3), I(4))) == 12 * at[0] + 4 * at[1] + at[2]


def test_divisions_vanish_where_ranges_allow():
    (i, j), ranges = variables(B, S)
    assert divmod_index(S * i + j, S, ranges) == (i, j)
    assert divmod_index(S * i + j + 1, S, ranges)[0] != i


def test_split_dimensions_pass_without_divisions():
    at, ranges = variables(B, S, 4, 16)
    inside = reshape_at(at, (B, S, I(4), I(16)), (B * S, I(64)), ranges)
    assert inside == (S * at[0] + at[1], 16 * at[2] + at[3])


@pytest.mark.parametrize("n", [S - 1, S + 2, 2 * S - 2])
def test_a_size_with_an_offset_divides_as_any_other(n):
    """Its multiples are sums, `i*s - i`, of which no term is one."""
    at, ranges = variables(4, n, n, B)
    shape = (I(4), n, n, B)
    offset = flat(at, shape)
    assert unflatten(offset, shape, ranges) == at
    rows, rest = divmod_index(offset, n * B, ranges)
    assert not rows.has(FloorDiv) and rest == flat(at[2:], shape[2:])
    sizes = {"s": 6, "b": 3}
    extents = [value_of(d, sizes) for d in shape]
    for place in ((0, 0, 0, 0), (3, 4, 1, 2), (2, 1, 3, 0)):
        values = sizes | {i.name: p for i, p in zip(at, place)}
        number = int(np.ravel_multi_index(place, extents))
        assert (value_of(rows, values), value_of(rest, values)) == divmod(number, extents[2] * extents[3])


def test_a_merged_dimension_rejoins_in_the_flat_offset():
    at, ranges = variables(B * S, 64)
    inside = reshape_at(at, (B * S, I(64)), (B, S, I(64)), ranges)
    assert inside[0].has(FloorDiv)
    assert flat(inside, (B, S, I(64))) == 64 * at[0] + at[1]


@pytest.mark.parametrize(
    "of,to",
    [
        ((4, 6), (24,)),
        ((24,), (2, 3, 4)),
        ((2, 12), (8, 3)),
        ((1, 6), (6, 1)),
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (4, 3, 2)),
    ],
)
def test_reshape_reads_what_numpy_reads(of, to):
    at, ranges = variables(*to)
    inside = reshape_at(at, tuple(map(I, to)), tuple(map(I, of)), ranges)
    want = np.arange(np.prod(of)).reshape(to)
    grid = dict(zip((v.name for v in at), np.indices(to)))
    got = sum(value_of(sympy.sympify(i), grid) * int(np.prod(of[k + 1 :])) for k, i in enumerate(inside))
    np.testing.assert_array_equal(np.broadcast_to(got, to), want)


def test_unflatten_inverts_flat():
    at, ranges = variables(3, 5, 7)
    shape = (I(3), I(5), I(7))
    assert unflatten(flat(at, shape), shape, ranges) == at


def test_coefficient_sees_through_sums_only():
    (i, j), _ = variables(3, 4)
    assert coefficient(3 * i + j, i) == 3
    assert coefficient(j, i) == 0
    assert coefficient(i * i, i) is None and coefficient(FloorMod(i, I(2)), i) is None


def test_upper_needs_terms_that_are_not_negative():
    (i, j), ranges = variables(3, 4)
    assert upper(2 * i + j, ranges) == 7
    assert upper(i - j, ranges) is None


def test_hint_guesses_sizes():
    assert hint(B * 2) == 512 and hint(I(7)) == 7
