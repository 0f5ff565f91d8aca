"""Steady parts of rows, short rows side by side, lanes over two loops: what makes group norm fast."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.hoisting import hoisted
from dynacomp.lowering.interpret.schedules import run
from dynacomp.lowering.kernel_ir.loops import Kernel
from dynacomp.lowering.kernel_ir.machine import GPU
from dynacomp.lowering.kernel_ir.printer import parse, text
from dynacomp.lowering.primitives.translate import lower_function

ROWS = """
kernel scale(x: f32[4, 16, 64], s: f32[4, 8]) -> (y: f32[4, 16, 64]):
    parallel i0 < 4:
        for i1 < 16:
            vector i2 < 64:
                y[1024*i0 + 64*i1 + i2] = mul(x[1024*i0 + 64*i1 + i2], s[8*i0 + FloorDiv(i2, 8)])
"""


def group_norm(x: jnp.ndarray) -> jnp.ndarray:
    n, h, c = x.shape
    g = x.reshape(n, h, 4, c // 4)
    g = (g - g.mean((1, 3), keepdims=True)) * lax.rsqrt(g.var((1, 3), keepdims=True) + 1e-5)
    return g.reshape(x.shape)


def kernels(function: object, *args: np.ndarray) -> list[Kernel]:
    return [s.kernel for s in schedule(lower_function(function, *args)).steps]


def test_steady_values_move_to_scratch() -> None:
    result = text(hoisted(parse(ROWS)))
    assert "steady0[i2] = s[8*i0 + FloorDiv(i2, 8)]" in result
    assert "mul(x[1024*i0 + 64*i1 + i2], steady0[i2])" in result


@pytest.mark.parametrize("change", [("for i1 < 16", "for i1 < 2"), ("FloorDiv(i2, 8)", "FloorDiv(i1, 2)"),
                                    ("s[8*i0 + FloorDiv(i2, 8)]", "x[1024*i0 + i2]")])
def test_few_rows_moving_values_and_cheap_loads_stay(change: tuple[str, str]) -> None:
    kernel = parse(ROWS.replace(*change))
    assert hoisted(kernel) == kernel


FOLDED = """
kernel scores(x: f32[4, 16, 64], q: f32[4, 64], s: f32[4, 64]) -> (y: f32[4, 16]):
    parallel i0 < 4:
        for i1 < 16:
            vector i2 < 64:
                t0 = q[64*i0 + i2]
                t1 = lt(index(i2, i32), i32(32))
                t2 = x[1024*i0 + 64*i1 + i2]
                acc a0: sum f32 = mul(t2, select(t1, mul(t0, exp(s[64*i0 + i2])), t0))
            y[16*i0 + i1] = a0
"""


def test_what_lanes_fold_is_read_from_scratch_by_way_of_names() -> None:
    kernel = parse(FOLDED)
    result = text(hoisted(kernel))
    assert ("steady0[i2] = select(lt(index(i2, i32), i32(32)), mul(q[64*i0 + i2], exp(s[64*i0 + i2])), "
            "q[64*i0 + i2])") in result
    assert "acc a0: sum f32 = mul(t2, steady0[i2])" in result


@pytest.mark.parametrize("change", [("t0 = q[64*i0 + i2]", "t0 = q[64*i0 + i1]"), ("mul(t0, exp(s[64*i0 + i2]))", "t0"),
                                    ("exp(s[64*i0 + i2])", "exp(t2)")])
def test_what_moves_with_the_rows_is_not(change: tuple[str, str]) -> None:
    kernel = parse(FOLDED.replace(*change))
    assert not any("select" in line for line in text(hoisted(kernel)).splitlines() if "steady" in line.split("=")[0])


def test_short_rows_are_folded_by_lanes_over_all() -> None:
    x = np.random.default_rng(0).standard_normal((8, 40, 32), np.float32)
    plan = schedule(lower_function(group_norm, x))
    printed = "".join(text(s.kernel) for s in plan.steps)
    assert "vector i2 < 32" in printed and "FloorMod" not in printed
    np.testing.assert_allclose(run(plan, (x,), {})[0], group_norm(x), rtol=2e-5, atol=2e-6)


def test_rows_gathered_by_position_are_lanes() -> None:
    table, ids = np.zeros((50, 16), np.float32), np.zeros((20, 12), np.int32)
    (kernel,) = kernels(lambda t, i: t[i].sum(1), table, ids)
    assert "parallel vector i1 < 16" in text(kernel)


def spread_boxes(a, b):
    """Overlaps of boxes whose corners lie side by side in memory."""
    low = jnp.maximum(a[:, None, :2], b[None, :, :2])
    high = jnp.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = jnp.clip(high - low, 0)
    return sides[..., 0] * sides[..., 1]


@pytest.mark.parametrize(("rows", "blocks"), [(64, "parallel i0b < 8"), (1000, "parallel i0b < 63"),
                                              (63, "parallel i0 < 63")])
def test_rows_that_threads_share_are_shared_in_blocks(rows, blocks):
    numbers = np.random.default_rng(0).random
    a, b = (numbers((n, 4), np.float32) for n in (rows, 40))
    graph = lower_function(spread_boxes, a, b)
    printed = text(schedule(graph).steps[-1].kernel)
    assert blocks in printed
    assert ("steady0" in printed) == ("b <" in blocks)
    assert "parallel i0 < " in text(schedule(graph, GPU).steps[-1].kernel)
    np.testing.assert_allclose(run(schedule(graph), [a, b], {})[0], spread_boxes(a, b), rtol=1e-6)


def test_blocks_of_rows_for_ten_sizes_and_one_capture():
    compiled = dynacomp.jit(spread_boxes, dynamic=True)
    before = dynacomp.stats()["frames_captured"]
    for rows in (5, 7, 8, 16, 63, 64, 65, 127, 130, 300):
        numbers = np.random.default_rng(rows).random
        a, b = (jnp.asarray(numbers((n, 4), np.float32)) for n in (rows, rows + 3))
        np.testing.assert_allclose(compiled(a, b), spread_boxes(a, b), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] - before == 1


def test_steady_names_read_twice_each_in_the_next_take_no_time_that_doubles() -> None:
    """Thirty of them took hours: a physics engine's rollout, batched and differentiated, did not compile."""
    names = ["t0 = exp(s[8*i0 + FloorDiv(i2, 8)])", *(f"t{i + 1} = mul(t{i}, sin(t{i}))" for i in range(60))]
    *head, store = ROWS.replace("s[8*i0 + FloorDiv(i2, 8)])", "t60)").splitlines()
    kernel = parse("\n".join([*head, *(" " * 16 + name for name in names), store]))
    assert len(text(hoisted(kernel))) < 10 * len(text(kernel))
