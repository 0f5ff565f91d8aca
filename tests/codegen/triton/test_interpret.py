"""`codegen.triton.interpret`: what is replaced in Triton's interpreter while kernels of ours run in it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton")

from triton.runtime import interpreter

from dynacomp.codegen.triton.interpret import HostBuffer, interpret
from dynacomp.codegen.triton.modules import interpreted_functions
from dynacomp.codegen.triton.source import HEADER

SOURCE = HEADER + """
@triton.jit
def narrow(x_ptr, out_ptr, R: tl.constexpr):
    at = tl.arange(0, R)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.bfloat16))

@triton.jit
def folds(x_ptr, total_ptr, most_ptr, place_ptr, sums_ptr, R: tl.constexpr):
    at = tl.arange(0, R)
    x = tl.load(x_ptr + at)
    tl.store(total_ptr, tl.reduce(x, 0, lib.combine_sum))
    most, place = tl.reduce((x, at), 0, lib.combine_argmax)
    tl.store(most_ptr, most)
    tl.store(place_ptr, place)
    tl.store(sums_ptr + at, tl.associative_scan(x, 0, lib.combine_sum))

@triton.jit
def backwards(x_ptr, out_ptr, R: tl.constexpr):
    at = tl.arange(0, R)
    tl.store(out_ptr + at, tl.associative_scan(tl.load(x_ptr + at), 0, lib.combine_max, reverse=True))

@triton.jit
def outside(x_ptr, out_ptr, R: tl.constexpr):
    tl.store(out_ptr, tl.load(x_ptr).nowhere)
"""


def run(name: str, *buffers: np.ndarray) -> None:
    interpret(interpreted_functions(SOURCE)[name], 1, buffers, [], R=len(buffers[0]))


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    x = np.array([1.0, 1.00390625, 1.01171875, 3e38], np.float32)  # the second and third lie between two
    out = np.zeros(4, ml_dtypes.bfloat16)
    run("narrow", x, out)
    assert out.astype(np.float32).tolist() == x.astype(ml_dtypes.bfloat16).astype(np.float32).tolist()


def test_folds_and_scans() -> None:
    x = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.float32)
    total, most, place, sums = np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros_like(x)
    run("folds", x, total, most, place, sums)
    assert (total[0], most[0], place[0]) == (19, 9, 5) and sums.tolist() == np.cumsum(x).tolist()
    out = np.zeros_like(x)
    run("backwards", x, out)
    assert out.tolist() == [9, 9, 9, 9, 9, 9, 6, 6]


def test_what_was_replaced_is_put_back_after_an_error_too() -> None:
    before = interpreter.ReduceOps.apply_impl, interpreter.interpreter_builder.create_splat
    with pytest.raises(Exception, match="nowhere"):
        run("outside", np.zeros(2, np.float32), np.zeros(2, np.float32))
    assert (interpreter.ReduceOps.apply_impl, interpreter.interpreter_builder.create_splat) == before


def test_a_buffer_is_its_own_copy_on_the_host() -> None:
    held = np.zeros(3, bool)
    buffer = HostBuffer(held)
    assert buffer.cpu() is buffer.untyped_storage() is buffer.new_empty(3, "cpu") is buffer
    assert buffer.data_ptr() == held.ctypes.data and buffer.dtype == "int1" and buffer.storage_offset() == 0
