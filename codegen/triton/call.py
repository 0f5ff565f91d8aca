"""What one launch needs to run: a `Call`, made from a Launch or a matmul, for whoever runs it.

A Call names a function of a source text, its grid and its arguments. Two engines run Calls: Triton's
interpreter (`host`) and a GPU inside a jitted program (`gpu`). Block sizes are chosen here, by
rule: there is no search, so the first call is as fast as the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from dynacomp.codegen.dims import substitute
from dynacomp.codegen.triton.scalars import triton_type
from dynacomp.codegen.triton.source import Launch
from dynacomp.kernels.templates import TEMPLATES

Sizes = Mapping[sympy.Symbol, int]
Shaped = tuple[tuple[int, ...], np.dtype]

ELEMENTS = 2048
"""Block elements of a program: 4 warps with 16 each a thread, enough to hide a load's latency."""
WIDEST = 4096
"""Columns of a tile at most; longer rows take several turns."""
WIDE = 2**31
"""From so many elements on, offsets are computed in 64 bits."""


@dataclass(frozen=True)
class Call:
    """Run `function` of `source` over `grid` programs.

    buffers: every pointer argument with its shape and dtype, in order. writes: those that change.
    scalars: the integer arguments after the pointers. constants: constexprs, dtypes by Triton's name.
    """

    source: str
    function: str
    grid: int
    buffers: Mapping[str, Shaped]
    writes: frozenset[str]
    scalars: Mapping[str, int]
    constants: Mapping[str, Any]
    warps: int = 4
    scratch: frozenset[str] = field(default=frozenset())


def launch_call(launch: Launch, source: str, sizes: Sizes) -> Call:
    """The Call of a Launch at concrete sizes."""
    buffers = {b.name: (tuple(substitute(d, sizes) for d in b.shape), np.dtype(b.dtype)) for b in launch.buffers}
    lanes = substitute(launch.lanes, sizes)
    rows, columns, warps = blocks(launch, lanes, sizes)
    return Call(
        source,
        launch.name,
        -(-lanes // rows),
        buffers,
        launch.writes,
        {s.name: sizes[s] for s in launch.sizes},
        {"IDX": index_type(buffers), "R": rows, "C": columns},
        warps,
        frozenset(b.name for b in launch.scratch),
    )


def index_type(buffers: Mapping[str, Shaped]) -> str:
    """The integer type that can hold an offset into any of the buffers."""
    most = max((int(np.prod(shape, dtype=np.int64)) for shape, _ in buffers.values()), default=0)
    return "tl.int64" if most >= WIDE else "tl.int32"


def blocks(launch: Launch, lanes: int, sizes: Sizes) -> tuple[int, int, int]:
    """(R, C, warps) of a launch: powers of two.

    Along contiguous columns a tile is as wide as the row; where neighbours in memory are the lanes,
    it is 32 lanes wide and as deep as the rest allows.
    """
    if launch.flat:
        return min(power(lanes), ELEMENTS // 2), 1, 4
    widest = max((substitute(c, sizes) for c in launch.columns if not c.free_symbols - set(sizes)), default=WIDEST)
    if launch.strided:
        rows = min(power(lanes), 32)
        return rows, min(power(widest), ELEMENTS // rows), 4
    columns = min(power(widest), WIDEST)
    rows = min(power(lanes), max(1, ELEMENTS // columns))
    return rows, columns, 8 if rows * columns > ELEMENTS else 4


def power(n: int) -> int:
    """The least power of two that is n or more, at least 1."""
    return 1 << max(0, int(n) - 1).bit_length()


def matmul_call(
    source: str,
    params: Mapping[str, Any],
    names: tuple[str, str, str],
    dtypes: tuple[np.dtype, np.dtype, np.dtype],
    sizes: Sizes,
) -> Call:
    """The Call of the template `matmul` (its params: `dynacomp.kernels.templates`).

    names and dtypes are those of a, b and out. Raises ValueError for dtypes that it does not take.
    """
    if not TEMPLATES["matmul"].applies(params, dtypes):
        raise ValueError(f"the matmul template takes no product of {dtypes[0]} and {dtypes[1]} in {dtypes[2]}")
    batch, m, n, k = (substitute(params[p], sizes) for p in ("batch", "m", "n", "k"))
    a_strides, b_strides = ([substitute(s, sizes) for s in params[p]] for p in ("a_strides", "b_strides"))
    cores, operand, total = _product_types(dtypes)
    rows, columns, depth = _tile(cores, m, n, k, dtypes)
    extents = (1 + _last(batch, m, k, a_strides), 1 + _last(batch, k, n, b_strides), batch * m * n)
    buffers = {name: ((e,), d) for name, e, d in zip(names, extents, dtypes)}
    strides = zip(("a_batch", "a_row", "a_inner", "b_batch", "b_inner", "b_column"), (*a_strides, *b_strides))
    grid = batch * -(-m // rows) * -(-n // columns)
    constants = {
        "IDX": index_type(buffers),
        "CORES": cores,
        "OPERAND": operand,
        "SUM": total,
        "BM": rows,
        "BN": columns,
        "BK": depth,
    }
    return Call(
        source,
        "dot",
        grid,
        buffers,
        frozenset(names[2:]),
        {"m": m, "n": n, "k": k, **dict(strides)},
        constants,
        8 if rows * columns >= 128 * 128 else 4,
    )


def _last(batch: int, rows: int, columns: int, strides: list[int]) -> int:
    return sum((max(e, 1) - 1) * s for e, s in zip((batch, rows, columns), strides))


def _product_types(dtypes: tuple[np.dtype, ...]) -> tuple[bool, str, str]:
    """Whether tensor cores take it, and in what it multiplies and adds."""
    a, b, out = dtypes
    if all(d.kind in "iu" for d in dtypes):
        if {a.name, b.name} == {"int8"} and out.name == "int32":
            return True, "tl.int8", "tl.int32"
        return False, triton_type(out), triton_type(out)
    if "float64" in (a.name, b.name, out.name):
        return False, "tl.float64", "tl.float64"
    return True, triton_type(a) if a == b else "tl.float32", "tl.float32"


def _tile(cores: bool, m: int, n: int, k: int, dtypes: tuple[np.dtype, ...]) -> tuple[int, int, int]:
    """(BM, BN, BK): large for tensor cores, at least the 16 x 16 x 16 (32 in bytes) that they take."""
    if not cores:
        return min(power(m), 32), min(power(n), 32), min(power(k), 4)
    widest, depth = (64, 32) if dtypes[0].itemsize == 4 else (128, 64)
    least = 32 if dtypes[0].itemsize == 1 else 16
    rows, columns = (max(16, min(power(e), widest)) for e in (m, n))
    return rows, columns, max(least, min(power(k), depth))
