"""Kernels as Triton source: what loops become, run in the interpreter and compiled for three GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.triton.host import HostProgram
from dynacomp.codegen.triton.index import print_index
from dynacomp.codegen.triton.modules import jit_functions
from dynacomp.codegen.triton.source import HEADER, triton_launches
from dynacomp.codegen.triton.steps import plan
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.kernel_ir.loops import Acc, Apply, Buffer, Const, Kernel, Let, Load, Loop, Ref, Scan, Store
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod
from dynacomp.lowering.sizes.symbols import size, symbol

from .triton_kit import TARGETS, compile_kernel, compile_launch, run_kernel

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
N, D = size("n"), size("d")
I0, I1, I2, I3 = map(symbol, ("i0", "i1", "i2", "i3"))
X, OUT = Buffer("x", (N, D), F32), Buffer("out", (N, D), F32)


def row(i: object) -> Load:
    return Load("x", D * I0 + i, F32)


def softmax() -> Kernel:
    e = Apply("exp", (Apply("sub", (row(I2), Ref("m", F32)), F32),), F32)
    share = Apply("div", (Load("e", I3, F32), Ref("s", F32)), F32)
    return Kernel(
        "softmax",
        (X,),
        (OUT,),
        (
            Loop(
                I0,
                N,
                (
                    Loop(I1, D, (), (Acc("m", "max", row(I1), F32),), vector=True),
                    Loop(
                        I2,
                        D,
                        (Let("t", e), Store("e", I2, Ref("t", F32))),
                        (Acc("s", "sum", Ref("t", F32), F32),),
                        vector=True,
                    ),
                    Loop(I3, D, (Store("out", D * I0 + I3, share),), vector=True),
                ),
                parallel=True,
            ),
        ),
        (N, D),
        (Buffer("e", (D,), F32),),
    )


def centred() -> Kernel:
    """A scalar of the top level (the total) that a parallel loop reads: two launches."""
    less = Apply("sub", (Load("x", I0, F32), Ref("total", F32)), F32)
    return Kernel(
        "centred",
        (X,),
        (OUT,),
        (
            Loop(I1, N * D, (), (Acc("total", "sum", Load("x", I1, F32), F32),), vector=True),
            Loop(I0, N * D, (Store("out", I0, less),), parallel=True, vector=True),
        ),
        (N, D),
    )


def prefix(reverse: bool) -> Kernel:
    return Kernel(
        "prefix",
        (X,),
        (OUT,),
        (
            Loop(
                I0,
                N,
                (
                    Loop(
                        I1,
                        D,
                        (),
                        scans=(Scan("p", "sum", row(I1), F32),),
                        after=(Store("out", D * I0 + I1, Ref("p", F32)),),
                        reverse=reverse,
                    ),
                ),
                parallel=True,
            ),
        ),
        (N, D),
    )


def best(fold: str) -> Kernel:
    return Kernel(
        "best",
        (X,),
        (Buffer("at", (N,), I32),),
        (
            Loop(
                I0,
                N,
                (
                    Loop(I1, D, (), (Acc("a", fold, row(I1), I32, position=I1),), vector=True),
                    Store("at", I0, Ref("a", I32)),
                ),
                parallel=True,
            ),
        ),
        (N, D),
    )


def scatter(mode: str) -> Kernel:
    """out[index[i]] = mode(out[index[i]], x[i]), where indices may repeat."""
    index, values = Buffer("index", (N,), I32), Buffer("x", (N,), F32)
    target = Buffer("out", (D,), F32)
    return Kernel(
        "scatter",
        (index, values, target),
        (target,),
        (
            Loop(
                I0,
                N,
                (Let("j", Load("index", I0, I32)), Store("out", symbol("j"), Load("x", I0, F32), mode)),
                parallel=True,
                vector=True,
            ),
        ),
        (N, D),
    )


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (13, 37), (5, 64)])
def test_softmax_in_tiles(n: int, d: int) -> None:
    arrays = {"x": values(n, d), "out": np.zeros((n, d), np.float32)}
    run_kernel(softmax(), arrays, {"n": n, "d": d}, lanes=4)
    e = np.exp(arrays["x"] - arrays["x"].max(1, keepdims=True))
    np.testing.assert_allclose(arrays["out"], e / e.sum(1, keepdims=True), rtol=1e-6)


def test_softmax_source() -> None:
    (launch,) = triton_launches(softmax())
    assert "m = tl.reduce(m_tile, 1, lib.combine_max, keep_dims=True)" in launch.source
    assert "x_ptr + lane*d + i1" in launch.source and "tl.debug_barrier()" in launch.source
    assert launch.lanes == N and not launch.flat and not launch.strided
    assert [b.shape for b in launch.scratch] == [(N, D)]


def test_scalars_travel_between_launches() -> None:
    first, second = triton_launches(centred())
    assert "total_box" in first.writes and second.flat
    arrays = {"x": values(6, 7), "out": np.zeros((6, 7), np.float32)}
    run_kernel(centred(), arrays, {"n": 6, "d": 7})
    np.testing.assert_allclose(arrays["out"], arrays["x"] - arrays["x"].sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_prefix_sums(reverse: bool, exact: bool) -> None:
    (launch,) = triton_launches(prefix(reverse), exact)
    assert ("associative_scan" in launch.source) is not exact
    arrays = {"x": values(3, 41), "out": np.zeros((3, 41), np.float32)}
    run_kernel(prefix(reverse), arrays, {"n": 3, "d": 41}, lanes=2, exact=exact)
    step = -1 if reverse else 1
    np.testing.assert_allclose(
        arrays["out"], np.cumsum(arrays["x"][:, ::step], 1)[:, ::step], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("fold", ["argmax", "argmin"])
def test_first_best_wins_and_nan_beats_all(fold: str) -> None:
    x = np.round(values(6, 40))
    x[1, 7], x[1, 30] = np.nan, np.nan
    x[2] = -np.inf if fold == "argmax" else np.inf
    arrays = {"x": x, "at": np.zeros(6, np.int32)}
    run_kernel(best(fold), arrays, {"n": 6, "d": 40}, lanes=4)
    np.testing.assert_array_equal(arrays["at"], getattr(np, fold)(x, 1))


@pytest.mark.parametrize(("mode", "ufunc"), [("add", np.add), ("mul", np.multiply), ("max", np.maximum)])
def test_scatter_with_repeated_indices(mode: str, ufunc: np.ufunc) -> None:
    (launch,) = triton_launches(scatter(mode))
    assert ("tl.atomic_add" in launch.source) is (mode == "add")
    assert launch.lanes == (N if mode == "add" else 1)
    index = np.array([3, 1, 3, 3, 0, 1], np.int32)
    arrays = {"index": index, "x": values(6), "out": values(5, seed=1)}
    wanted = arrays["out"].copy()
    ufunc.at(wanted, index, arrays["x"])
    run_kernel(scatter(mode), arrays, {"n": 6, "d": 5}, lanes=4)
    np.testing.assert_allclose(arrays["out"], wanted, rtol=1e-6)


def test_float_atomics_are_given_up_when_exact() -> None:
    (launch,) = triton_launches(scatter("add"), exact=True)
    assert "atomic" not in launch.source and launch.lanes == 1


def test_sibling_loops_may_share_a_variable() -> None:
    """One symbol as a plain loop's variable and as a tiled one's: Triton wants two names."""
    body = (
        Loop(
            I1,
            N,
            (
                Loop(I2, D, (Store("out", D * I1 + I2, Const(1.0, F32)),), vector=True),
                Loop(I0, N, (Loop(I2, N, (Store("at", I2, Const(2, I32)),)),)),
            ),
        ),
    )
    kernel = Kernel("siblings", (), (OUT, Buffer("at", (N,), I32)), body, (N, D))
    arrays = {"out": np.zeros((3, 5), np.float32), "at": np.zeros(3, np.int32)}
    run_kernel(kernel, arrays, {"n": 3, "d": 5})
    assert (arrays["out"] == 1).all() and (arrays["at"] == 2).all()
    assert compile_kernel(kernel, "sm_90")


def test_a_variable_of_three_loops_in_a_row() -> None:
    """A plain loop, a tiled one, and a tiled one again: the third may not take the name of the first."""
    here = D * I0 + I1
    row = tuple(Loop(I1, D, (Store("out", here, Apply("add", (Load("out", here, F32), Const(v, F32)), F32)),),
                     vector=vector) for v, vector in ((1.0, False), (2.0, True), (4.0, True)))
    kernel = Kernel("thrice", (), (OUT,), (Loop(I0, N, row, parallel=True),), (N, D))
    arrays = {"out": np.zeros((3, 5), np.float32)}
    run_kernel(kernel, arrays, {"n": 3, "d": 5})
    assert (arrays["out"] == 7).all()
    assert compile_kernel(kernel, "sm_90")


def test_rows_that_fit_a_tile_stay_in_registers() -> None:
    (launch,) = triton_launches(softmax())
    whole = launch.source[launch.source.index("def softmax_whole"):]
    assert launch.held == {"e"} and "e_ptr" not in whole and "for " not in whole and "barrier" not in whole
    kept = replace(launch, buffers=tuple(b for b in launch.buffers if b.name not in launch.held))
    binary = compile_launch(kept, jit_functions(f"{HEADER}\n{launch.source}")["softmax_whole"], "sm_90", 4, 64)
    assert binary.asm["ptx"].count("ld.global") < 4  # a row is read once
    program = BACKENDS["triton"].compile(*_scheduled(jax.nn.softmax, values(5, 37)), {})
    found, x = program(jnp.asarray(values(5, 37)))[0], values(5, 37)
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-6)


def _scheduled(fn: Any, *args: Any) -> tuple[Any, Any]:
    graph = lower_function(fn, *args)
    return graph, schedule(graph)


def column_sums() -> Kernel:
    fold = Loop(I1, N, (), (Acc("s", "sum", Load("x", D * I1 + I0, F32), F32),))
    body = (Loop(I0, D, (fold, Store("sums", I0, Ref("s", F32))), parallel=True, vector=True),)
    return Kernel("column_sums", (X,), (Buffer("sums", (D,), F32),), body, (N, D))


@pytest.mark.parametrize("exact", [False, True])
def test_folds_down_columns_take_rows_side_by_side(exact: bool) -> None:
    (launch,) = triton_launches(column_sums(), exact)
    assert launch.flat is exact and launch.strided is not exact and launch.lanes == D
    arrays = {"x": values(37, 11), "sums": np.zeros(11, np.float32)}
    run_kernel(column_sums(), arrays, {"n": 37, "d": 11}, lanes=4, exact=exact)
    np.testing.assert_allclose(arrays["sums"], arrays["x"].sum(0), rtol=1e-5)


def test_what_only_adds_to_memory_is_spread_over_lanes() -> None:
    """Rows of a gradient that are added where indices say; the index is read by each lane."""
    place = D * symbol("t") + I1
    inner = (Let("t", Load("index", I0, I32)), Store("out", place, Load("x", D * I0 + I1, F32), mode="add"))
    body = (Loop(I1, D, (Loop(I0, N, inner),), parallel=True, vector=True),)
    kernel = Kernel("rows", (X, Buffer("index", (N,), I32)), (OUT,), body, (N, D))
    (launch,) = triton_launches(kernel)
    assert launch.lanes == N * D and launch.flat and "for " not in launch.source
    index = np.array([2, 0, 2, 1, 2], np.int32)
    arrays = {"index": index, "x": values(5, 3), "out": values(5, 3, seed=1)}
    wanted = arrays["out"].copy()
    np.add.at(wanted, index, arrays["x"])
    run_kernel(kernel, arrays, {"n": 5, "d": 3}, lanes=4)
    np.testing.assert_allclose(arrays["out"], wanted, rtol=1e-6)
    assert triton_launches(kernel, exact=True)[0].lanes == 1


def test_lets_between_parallel_loops_are_every_lanes_own() -> None:
    body = (Loop(I0, N, (Let("t", Load("x", D * I0, F32)),
                         Loop(I1, D, (Store("out", D * I0 + I1, Ref("t", F32)),), parallel=True, vector=True)),
                 parallel=True),)
    kernel = Kernel("spread", (X,), (OUT,), body, (N, D))
    assert triton_launches(kernel)[0].lanes == N * D
    arrays = {"x": values(4, 7), "out": np.zeros((4, 7), np.float32)}
    run_kernel(kernel, arrays, {"n": 4, "d": 7}, lanes=8)
    np.testing.assert_array_equal(arrays["out"], np.repeat(arrays["x"][:, :1], 7, 1))


@pytest.mark.parametrize(("order", "turned"), [((1, 0, 2), False), ((0, 2, 1), True), ((2, 1, 0), True)])
def test_transposes_are_read_along_lanes_and_written_along_columns(order: tuple[int, ...], turned: bool) -> None:
    x = values(64, 3, 128) if order[-1] == 0 else values(3, 64, 128)
    planned = plan(schedule(lower_function(lambda x: 2 * x.transpose(order) + 1, x)), False)
    [[launch]] = planned.launches.values()
    assert launch.flat is not turned and not launch.strided
    assert [int(c) for c in launch.columns] == [64] * turned and launch.lanes == x.size // (64 if turned else 1)
    np.testing.assert_array_equal(HostProgram(planned)(x)[0], 2 * x.transpose(order) + 1)


def test_index_text() -> None:
    assert print_index(D * I0 + FloorDiv(I1, N), {"i0", "i1"}) == "(i1//n) + d*i0"
    assert print_index(FloorMod(I1 + 3, D)) == "(3 + i1) % d"
    with pytest.raises(TypeError, match="no spelling of the index"):
        print_index(N**D)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "kernel",
    [softmax(), centred(), prefix(True), best("argmax"), scatter("add"), scatter("mul")],
    ids=lambda k: k.name,
)
def test_compiles_ahead_of_time(kernel: Kernel, target: str) -> None:
    for binary in compile_kernel(kernel, target):
        assert binary.asm["hsaco" if target.startswith("gfx") else "cubin"][:4] == b"\x7fELF"
