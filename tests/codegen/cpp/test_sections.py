"""Vector loops cut where their conditions change their answers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import dynacomp
from dynacomp.codegen.cpp import backend
from dynacomp.codegen.cpp.known import Known
from dynacomp.codegen.cpp.sections import sections
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.kernel_ir.loops import Acc, Apply, Const, Index, Load, Loop, inner_loops
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.symbols import symbol

BOOL = np.dtype(bool)
SIZES = [1, 2, 15, 16, 17, 31, 33, 48, 100, 129]


def plan_of(fn, *args):
    return schedule(lower_function(fn, *args))


def source(fn, *args, folder):
    plan = plan_of(fn, *args)
    return "".join(backend.compile(plan, plan.output_avals, {"cache_dir": str(folder)}).source.values())


def lanes_of(fn, *args):
    (step,) = plan_of(fn, *args).steps
    (loop,) = step.kernel.body
    while not loop.vector:
        (loop,) = inner_loops(loop.body)
    return loop


def grid(*shape, dtype=np.float32):
    return jnp.asarray(np.arange(np.prod(shape)).reshape(shape) * 7 % 251, dtype)


def rolled(x):
    return x + jnp.roll(x, 1, -1) * 2 - jnp.roll(x, -1, -1)


def stencil(x):
    p = jnp.pad(x, 2, constant_values=7)
    return sum(p[i:i + x.shape[0], j:j + x.shape[1]] * (i - j) for i in range(5) for j in (0, 2, 3))


def joined(x):
    return jnp.concatenate([x[:, :3] * 2, x[:, 1:], -x, x[:, ::-1]], 1)


def pooled(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 5), (1, 1), "SAME")


def shifted_mask(x):
    at = jnp.arange(x.shape[1])
    return jnp.where((at >= 5) & (at < x.shape[1] - 20) & (x > 3), x, -x), jnp.where(at <= 21, at, 21 - at)


def flags(x):
    return jnp.concatenate([x[:, 1:] > 100, x > 5], 1), jnp.pad(x.astype(jnp.bfloat16), ((1, 0), (3, 2)))


def causal(x):
    return jnp.where(jnp.tril(jnp.ones((x.shape[0], x.shape[1]), bool)), x, 0), jnp.triu(jnp.pad(x, ((0, 0), (1, 9))))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fn", [rolled, stencil, joined, pooled, shifted_mask, flags, causal])
@pytest.mark.parametrize("n", SIZES)
def test_as_eager(fn, n):
    for rows in (1, 7):
        x = grid(rows, n).at[0, n // 2].set(-0.0).at[-1, -1].set(jnp.nan).at[0, 0].set(jnp.inf)
        got, expected = (jax.tree.leaves(f(x)) for f in (dynacomp.jit(fn), fn))
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == e.dtype
            g, e = (np.asarray(v).astype(np.float64) for v in (g, e))
            np.testing.assert_array_equal(g, e)
            np.testing.assert_array_equal(np.signbit(g) | np.isnan(g), np.signbit(e) | np.isnan(e))


@pytest.mark.parametrize("n, expected", [(256, [(1, 255)]), (34, [(1, 33)]), (32, []), (20, []), (16, []), (7, [])])
def test_where_a_rolled_row_is_cut(n, expected):
    assert sections(lanes_of(rolled, grid(4, n)), Known(), 16) == expected


def test_pieces_that_end_inside_of_a_register():
    fn = lambda x, y: jnp.concatenate([x, y], 1) + 1
    x, y = grid(3, 100), grid(3, 156)
    assert sections(lanes_of(fn, x, y), Known(), 16) == [(0, 100), (100, 256)]
    np.testing.assert_array_equal(dynacomp.jit(fn)(x, y), fn(x, y))


def test_windows_know_their_own_loops():
    j, k, integer = symbol("j"), symbol("k"), np.dtype(np.int32)
    at = Index(j + k - 2, integer)
    sides = Apply("ge", (at, Const(0, integer)), BOOL), Apply("lt", (at, Const(64, integer)), BOOL)
    inside = Apply("and", sides, BOOL)
    load = Load("x", j + k - 2, np.dtype(np.float32), inside, Const(0.0, np.dtype(np.float32)))
    window = Loop(k, sympy.Integer(5), (), (Acc("s", "sum", load, load.dtype),))
    assert sections(Loop(j, sympy.Integer(64), (window,), vector=True), Known(), 16) == [(2, 62)]


def test_no_lane_of_a_section_asks(tmp_path):
    text = source(rolled, grid(64, 256), folder=tmp_path)
    first, middle, last = text.split("const int64_t last")[1:]
    assert "select(" in first and "select(" in last
    stored = middle.split("store(")[1].split(";")[0]
    assert "select" not in stored and "masked" not in stored


def test_conditions_of_rows_choose_before_anything_is_read(tmp_path):
    text = source(lambda x: jnp.roll(x, 1, 0) + 1, grid(64, 256), folder=tmp_path)
    assert "masked_load" not in text and " ? DC_BRANCH(load(" in text


def test_masked_lanes_that_lie_in_the_array_are_read_without_a_mask(tmp_path):
    padded = lambda x: jnp.pad(x[1:-1, 1:-1] + x[2:, 1:-1], 1)
    assert "masked_load" not in source(padded, grid(64, 256), folder=tmp_path)
    assert "masked_load" in source(lambda x: jnp.pad(x, ((0, 0), (1, 1))), grid(1, 256), folder=tmp_path)
