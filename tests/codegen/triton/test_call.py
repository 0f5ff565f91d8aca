"""`codegen.triton.call`: what one launch needs, by rule: its grid, its blocks, the types that it computes in."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.call import index_type, launch_call, power
from dynacomp.codegen.triton.source import triton_launches
from dynacomp.codegen.triton.steps import plan
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

from .triton_kit import doubled


def test_powers_of_two() -> None:
    assert [power(n) for n in (0, 1, 2, 3, 5, 1024, 1025)] == [1, 1, 2, 4, 8, 1024, 2048]


def test_offsets_of_large_buffers_take_64_bits() -> None:
    small, large = ((1 << 30,), np.dtype(np.int8)), ((1 << 16, 1 << 15), np.dtype(np.int8))
    assert index_type({"x": small}) == "tl.int32" and index_type({}) == "tl.int32"
    assert index_type({"x": small, "y": large}) == "tl.int64"


@pytest.mark.parametrize(("n", "rows", "grid"), [(1, 1, 1), (5, 8, 1), (3000, 1024, 3)])
def test_a_launch_at_a_size(n: int, rows: int, grid: int) -> None:
    kernel = doubled()
    [launch] = triton_launches(kernel)
    call = launch_call(launch, "", {kernel.sizes[0]: n})
    assert (call.constants["R"], call.constants["C"], call.grid) == (rows, 1, grid)
    assert call.scalars == {"n": n} and call.writes == {"out"} and not call.scratch
    assert call.buffers == {"x": ((n,), np.float32), "out": ((n,), np.float32)}


@pytest.mark.parametrize(("width", "whole"), [(33, True), (9000, True), (20000, False)])
def test_a_row_that_fits_a_tile_is_read_at_once(width: int, whole: bool) -> None:
    x = jnp.zeros((16, width))
    planned = plan(schedule(lower_function(jax.nn.softmax, x)), False)
    launch = next(iter(planned.launches.values()))[0]
    call = launch_call(launch, planned.source, {})
    assert call.function == (launch.whole if whole else launch.name) and bool(call.scratch) is not whole
    assert call.warps == {33: 4, 9000: 16, 20000: 8}[width]
