"""Folds in C++: long sums in blocks, running sums in doubles, positions of the best, lanes into a scalar."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import dynacomp
from dynacomp.codegen.cpp.expr import Scope
from dynacomp.codegen.cpp.folds import BLOCK, is_long, is_running, lane_accs, lane_lets
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.kernel_ir.loops import Acc, Ref, Scan
from dynacomp.lowering.kernel_ir.printer import parse
from dynacomp.lowering.sizes.symbols import size
from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import scheduled

F32, I32 = np.dtype("float32"), np.dtype("int32")


def acc(fold, dtype=F32):
    return Acc("a", fold, Ref("t", dtype), dtype)


@pytest.mark.parametrize(("fold", "extent", "long"), [
    (acc("sum"), sympy.Integer(BLOCK + 1), True), (acc("sum"), sympy.Integer(BLOCK), False),
    (acc("sum"), size("n"), True), (acc("max"), size("n"), False), (acc("prod"), size("n"), False),
    (acc("sum", I32), size("n"), False)])
def test_only_long_sums_of_floats_go_block_by_block(fold, extent, long):
    assert is_long(fold, extent) == long


def test_what_a_double_keeps():
    assert is_running(Scan("s", "sum", Ref("t", F32), F32))
    assert not is_running(Scan("s", "max", Ref("t", F32), F32)) and not is_running(acc("sum"))
    assert acc("argmin", I32).is_arg and not acc("min").is_arg


def source(function, *args):
    return unit_source(scheduled(function, *args), False)


@pytest.mark.parametrize(("axis", "long", "short"), [(0, 4096, BLOCK), (1, 100_000, 4096)])
def test_a_long_sum_is_made_of_blocks_and_a_short_one_is_not(axis, long, short):
    """Lanes and registers side by side make a long row short."""
    shapes = [(n, 4) if axis == 0 else (4, n) for n in (long, short)]
    made = [source(lambda x: x.sum(axis), np.zeros(shape, np.float32)) for shape in shapes]
    assert ["a0_blocks" in text for text in made] == [True, False]


KERNEL = parse("""\
kernel k(x: f32[9, 8]) -> (o: f32[8], p: f32[8]):
    vector i0 < 8:
        for i1 < 9:
            t0 = x[8*i1 + i0]
            t1 = x[8*i1]
            acc a0: sum f32 = t0
            acc a1: sum f32 = t1
        o[i0] = a0
        p[i0] = a1
""".rstrip())


def test_lanes_are_kept_only_where_they_differ():
    (vector,) = KERNEL.body
    scope = Scope(var=vector.var.name, width=4)
    loop = vector.body[0]
    assert lane_accs(loop, scope) == ["a0"]
    assert lane_lets(loop.body, scope) == ["t0"]
    assert lane_lets(vector.body, scope) == ["a0"]


REDUCTIONS = {
    "sum": lambda x: x.sum(1), "columns": lambda x: x.sum(0), "max": lambda x: x.max(1),
    "prod": lambda x: (x / 2).prod(1),
    "argmax": lambda x: jnp.argmax(x, 1), "argmin of columns": lambda x: jnp.argmin(x, 0),
    "any": lambda x: (x > 1.5).any(1), "running": lambda x: jnp.cumsum(x, 1),
    "running max": lambda x: jax.lax.cummax(x, 1),
    "half": lambda x: x.astype(jnp.bfloat16).sum(1), "bits": lambda x: (x > 0).sum(1), "wide": lambda x: (x > 1).all(0)}


@pytest.mark.parametrize("columns", [1, 7, 100])
def test_tails_of_every_length(columns):
    """Lanes that stand empty at the end take no part."""
    function = lambda x: [fn(x) for fn in REDUCTIONS.values()]
    x = np.random.RandomState(columns).randn(5, columns).astype(np.float32)
    x[2, columns // 2] = np.nan
    for name, got, want in zip(REDUCTIONS, compiled(function, x)(x), function(jnp.asarray(x)), strict=True):
        assert got.dtype == want.dtype
        close = 1e-2 if name == "half" else 2e-5
        np.testing.assert_allclose(np.float64(got), np.float64(want), rtol=close, atol=1e-6, err_msg=name)


def test_the_first_of_equal_ones_is_the_best():
    x = np.zeros((3, 70), np.float32)
    x[1, 40:] = 5
    for function, want in ((lambda x: jnp.argmax(x, 1), [0, 40, 0]), (lambda x: jnp.argmin(x, 1), [0, 0, 0])):
        np.testing.assert_array_equal(compiled(function, x)(x)[0], want)


def test_a_sum_of_millions_errs_no_more_than_a_tree():
    x = np.full((1, 3_000_000), 0.1, np.float32)
    (got,) = compiled(lambda x: x.sum(1), x)(x)
    np.testing.assert_allclose(got, x.astype(np.float64).sum(1), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_of_unknown_length_needs_doubles_only_where_it_is_long(axis):
    """A row of 24 cost what twenty times as many did: blocks of doubles, in memory, for each."""
    summed = dynacomp.jit(lambda x: jnp.tanh(x).sum(axis))
    random = np.random.RandomState(0)
    dynacomp.reset()
    for columns in (24, 7, BLOCK, BLOCK + 1, 2048, 2049, 5000, 70_001, 3):
        x = random.rand(*((columns, 40) if axis == 0 else (3, columns))).astype(np.float32)
        exact = np.tanh(x.astype(np.float64)).sum(axis)
        eager = np.abs(np.asarray(jnp.tanh(x).sum(axis)) - exact).max()
        assert np.abs(np.asarray(summed(x)) - exact).max() <= 2 * eager + 1e-6 * exact.max(), columns
    assert dynacomp.stats()["frames_captured"] == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float64, "bfloat16"])
def test_sums_of_unknown_length_of_every_float(dtype):
    with jax.enable_x64(True):
        summed = dynacomp.jit(lambda x: (x.sum(-1), jnp.stack([x, x], -1).sum(-2)))
        for columns in (9, 21, 6000, 20_000):
            x = jnp.asarray(np.random.RandomState(1).rand(2, columns), dtype)
            for ours, theirs in zip(summed(x), (x.sum(-1), jnp.stack([x, x], -1).sum(-2))):
                assert ours.dtype == theirs.dtype
                close = 1e-2 if x.itemsize == 2 else 1e-12
                np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=close)
