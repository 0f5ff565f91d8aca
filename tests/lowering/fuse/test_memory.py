"""Temporaries: those alive together never overlap, dead ones are reused, outputs hold some until they are written."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import dynacomp
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.memory import SMALL, plan
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.symbols import size

N = size("n")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(0, 6)), max_size=14), st.integers(0, 5),
       st.lists(st.tuples(st.integers(0, 700), st.integers(0, 20)), max_size=4))
def test_living_buffers_do_not_meet(rows, symbolic, outputs):
    sized = lambda k, s: N * 4 * s if k < symbolic else sympy.Integer(s)
    lives = {f"b{k}": (sized(k, s), a, a + d) for k, (s, a, d) in enumerate(rows)}
    rooms = {f"o{k}": (sized(k + 3, s * 16), until) for k, (s, until) in enumerate(outputs)}
    planned = plan(lives, rooms)
    value = lambda x: int(sympy.sympify(x).subs(N, 7).doit())
    at = {n: value(o) for n, o in planned.offsets.items()}
    size_of = {n: value(s) for n, (s, _, _) in lives.items()}
    assert at.keys() == lives.keys() and all(o % 64 == 0 for o in at.values())
    for n, (_, _, last) in lives.items():
        space, until = rooms[planned.hosts[n]] if n in planned.hosts else (planned.arena, 100)
        assert at[n] + size_of[n] <= value(space) and last < until
    for x, y in itertools.combinations(lives, 2):
        together = lives[x][1] <= lives[y][2] and lives[y][1] <= lives[x][2]
        if together and size_of[x] and size_of[y] and planned.hosts.get(x) == planned.hosts.get(y):
            assert at[x] + size_of[x] <= at[y] or at[y] + size_of[y] <= at[x]


def test_dead_buffers_are_reused():
    planned = plan({k: (sympy.Integer(256), i, i + 1) for i, k in enumerate("abcdef")})
    assert planned.arena == 512 and len(set(planned.offsets.values())) == 2 and planned.hosts == {}


def test_symbolic_buffers_of_one_size_share():
    arena = plan({k: (64 * N, i, i + 1) for i, k in enumerate("abcdef")}).arena
    assert arena == 128 * N
    assert np.isfinite(int(arena.subs(N, 3)))


def test_outputs_hold_what_is_dead_before_they_are_written():
    size = sympy.Integer(SMALL)
    lives = {"early": (size, 0, 1), "next": (size, 2, 3), "late": (size, 2, 5)}
    rooms = {"last": (size, 6), "first": (size, 2), "small": (size - 1, 6)}
    assert plan(lives, rooms).hosts == {"early": "first", "next": "last"} and plan(lives, rooms).arena == SMALL
    moving = {"a": (64 * N, 0, 1), "b": (64 * N, 1, 2), "c": (64 * N, 2, 3)}
    assert plan(moving, {"out": (64 * N, 3)}).hosts == {"a": "out"}
    assert plan(moving, {"out": (64 * N, 4)}).hosts == {"a": "out", "c": "out"}
    assert plan(moving, {"out": (65 * N, 4)}).hosts == {}


def steps(x, w):
    """Three products, then results that were computed of them all."""
    a = jnp.sin(x) @ w
    b = jnp.cos(a) @ w
    c = jnp.tanh(b) @ w
    return c @ w, (a * 2 + c) @ w, c


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_same_results(dynamic):
    compiled = dynacomp.jit(steps, dynamic=dynamic)
    before = dynacomp.stats()["frames_captured"]
    for k in range(10):
        x, w = (jnp.asarray(np.random.RandomState(k + n).randn(64 if n else 48, 64).astype(np.float32)) / 8
                for n in (0, 1))
        for got, want in zip(compiled(x, w), steps(x, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == before + 1
    found = schedule(lower_function(steps, jnp.ones((48, 64)), jnp.ones((64, 64))))
    assert found.hosts and set(found.hosts.values()) <= set(found.outputs)
