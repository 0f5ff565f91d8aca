"""The arena: buffers alive together never overlap, dead ones are reused."""

import itertools

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from dynacomp.lowering.fuse.memory import plan
from dynacomp.lowering.sizes.symbols import size

N = size("n")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(0, 6)), max_size=14), st.integers(0, 5))
def test_living_buffers_do_not_meet(rows, symbolic):
    lives = {f"b{k}": (N * 4 * s if k < symbolic else sympy.Integer(s), a, a + d) for k, (s, a, d) in enumerate(rows)}
    offsets, arena = plan(lives)
    at = {n: int(sympy.sympify(o).subs(N, 7).doit()) for n, o in offsets.items()}
    size_of = {n: int(sympy.sympify(s).subs(N, 7)) for n, (s, _, _) in lives.items()}
    assert all(o % 64 == 0 for o in at.values())
    assert all(at[n] + size_of[n] <= int(sympy.sympify(arena).subs(N, 7)) for n in lives)
    for x, y in itertools.combinations(lives, 2):
        together = lives[x][1] <= lives[y][2] and lives[y][1] <= lives[x][2]
        if together and size_of[x] and size_of[y]:
            assert at[x] + size_of[x] <= at[y] or at[y] + size_of[y] <= at[x]


def test_dead_buffers_are_reused():
    offsets, arena = plan({k: (sympy.Integer(256), i, i + 1) for i, k in enumerate("abcdef")})
    assert arena == 512 and len(set(offsets.values())) == 2


def test_symbolic_buffers_of_one_size_share():
    _, arena = plan({k: (64 * N, i, i + 1) for i, k in enumerate("abcdef")})
    assert arena == 128 * N
    assert np.isfinite(int(arena.subs(N, 3)))
