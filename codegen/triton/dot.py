"""Matrix products in Triton: the device functions behind the `matmul` template.

out[e, i, j] = sum over p of a[e, i, p] * b[e, p, j], with any element strides of a and b and a contiguous
out. A program computes one BM x BN tile of one batch entry, by the tensor cores (CORES) or, for dtypes
that those lack (float64, integers), by forming every product. This module needs Triton.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynacomp.codegen.triton import lib


@triton.jit
def tile(m, n, IDX: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Of this program: its batch entry, and the rows and columns of its tile."""
    across = (n + BN - 1) // BN
    each = ((m + BM - 1) // BM) * across
    program = tl.program_id(0).to(IDX)
    place = program % each
    rows = (place // across) * BM + tl.arange(0, BM)
    columns = (place % across) * BN + tl.arange(0, BN)
    return program // each, rows, columns


@triton.jit
def dot(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    a_batch,
    a_row,
    a_inner,
    b_batch,
    b_inner,
    b_column,
    IDX: tl.constexpr,
    CORES: tl.constexpr,
    OPERAND: tl.constexpr,
    SUM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Tiles of a and b, converted to OPERAND, multiply into a SUM accumulator."""
    entry, rows, columns = tile(m, n, IDX, BM, BN)
    inner = tl.arange(0, BK).to(IDX)
    a_at = a_ptr + entry * a_batch + rows[:, None] * a_row
    b_at = b_ptr + entry * b_batch + columns[None, :] * b_column
    total = tl.full([BM, BN], 0, SUM)
    for start in range(0, k, BK):
        p = start + inner
        a = tl.load(a_at + p[None, :] * a_inner, mask=(rows[:, None] < m) & (p[None, :] < k), other=0).to(OPERAND)
        b = tl.load(b_at + p[:, None] * b_inner, mask=(p[:, None] < k) & (columns[None, :] < n), other=0).to(OPERAND)
        if CORES:
            total = tl.dot(a, b, acc=total, input_precision="ieee", out_dtype=SUM)
        else:
            total += tl.reduce(a.to(SUM)[:, :, None] * b.to(SUM)[None, :, :], 1, lib.combine_sum)
    out_at = out_ptr + (entry * m + rows[:, None]) * n + columns[None, :]
    tl.store(out_at, total.to(out_ptr.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))
