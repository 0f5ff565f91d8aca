"""What one launch needs to run: a `Call`, made from a Launch, for whoever runs it.

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
from dynacomp.codegen.triton.source import Launch

Sizes = Mapping[sympy.Symbol, int]
Shaped = tuple[tuple[int, ...], np.dtype]

ELEMENTS = 2048
"""Block elements of a program: 4 warps with 16 each a thread, enough to hide a load's latency."""
WIDEST = 4096
"""Columns of a tile at most; longer rows take several turns."""
WHOLE = 16384
"""Columns of a tile that holds a row at once, at most: 32 to each thread."""
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
    lanes = substitute(launch.lanes, sizes)
    rows, columns, warps = blocks(launch, lanes, sizes)
    whole = fits(launch, columns, sizes)
    gone = launch.held if whole else frozenset()
    kept = [b for b in launch.buffers if b.name not in gone]
    buffers = {b.name: (tuple(substitute(d, sizes) for d in b.shape), np.dtype(b.dtype)) for b in kept}
    return Call(
        source,
        launch.whole if whole else launch.name,
        -(-lanes // rows),
        buffers,
        launch.writes - gone,
        {s.name: sizes[s] for s in launch.sizes},
        {"IDX": index_type(buffers), "R": rows, "C": columns},
        warps,
        frozenset(b.name for b in launch.scratch) - gone,
    )


def fits(launch: Launch, columns: int, sizes: Sizes) -> bool:
    """Whether one tile of so many columns holds what any tiled loop of the launch walks."""
    known = all(not c.free_symbols - set(sizes) for c in launch.columns)
    return bool(launch.whole) and known and columns >= max(substitute(c, sizes) for c in launch.columns)


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
    columns = power(widest) if launch.whole and power(widest) <= WHOLE else min(power(widest), WIDEST)
    rows = min(power(lanes), max(1, ELEMENTS // columns))
    return rows, columns, max(4, min(16, rows * columns // 512))


def power(n: int) -> int:
    """The least power of two that is n or more, at least 1."""
    return 1 << max(0, int(n) - 1).bit_length()
