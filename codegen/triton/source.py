"""Kernels as Triton source: one Kernel becomes one or more launches, each a `@triton.jit` function.

How loops map to a GPU. A launch's outer parallel loops are flattened into one range of `lanes`;
each program of the grid takes R of them. A `vector` loop inside is walked in tiles of C, so that
values have up to two axes:

    LANE  [R, 1]   depends on the parallel iteration      ([R] in a `flat` launch, which has no
    COL   [1, C]   depends on the vector iteration         vector loop below its lanes)

Every other loop is a `for` in the program, in step for all its lanes. Accumulators hold one value for
every (lane, column) and are folded over the columns once, after the loop. Tails are masked.

A launch with a read-modify-write that a GPU has no atomic for is `serial`: one lane, plain loops.

    launches = triton_launches(kernel, exact=False)
    print(launches[0].source)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.triton.emit import Emitter, scannable
from dynacomp.codegen.triton.expr import ATOMIC_TYPES
from dynacomp.codegen.triton.index import safe
from dynacomp.codegen.triton.launch import Piece, loaded, names_used, pieces, statements, stored
from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel, Loop, Stmt, Store
from dynacomp.lowering.kernel_ir.scalars import kind

HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice

from dynacomp.codegen.triton import lib
"""


@dataclass(frozen=True)
class Launch:
    """One `@triton.jit` function and what it takes to call it.

    Its parameters are a pointer for each of `buffers`, then `sizes`, then the constexprs IDX (the
    integer type of indices), R (lanes a program) and C (columns a tile). `scratch` are those buffers
    that belong to the Kernel alone (boxes, locals; shapes in SymPy). The grid has ceil(lanes / R)
    programs. `columns` are the extents of the tiled loops; `strided`: neighbours along the columns
    are not neighbours in memory.
    """

    name: str
    source: str
    buffers: tuple[Buffer, ...]
    writes: frozenset[str]
    scratch: tuple[Buffer, ...]
    sizes: tuple[sympy.Symbol, ...]
    lanes: sympy.Expr
    columns: tuple[sympy.Expr, ...] = ()
    flat: bool = False
    strided: bool = False


def triton_launches(kernel: Kernel, exact: bool = False) -> tuple[Launch, ...]:
    """The launches of one Kernel. `exact` gives up reassociation: no tiled sums, no float atomics."""
    parts = pieces(kernel)
    names = [kernel.name if len(parts) == 1 else f"{kernel.name}_{i}" for i in range(len(parts))]
    return tuple(_launch(kernel, part, safe(name), exact) for part, name in zip(parts, names))


def _launch(kernel: Kernel, piece: Piece, name: str, exact: bool) -> Launch:
    serial = not all(_atomic(s, exact) for s in of_class(Store, statements(piece.body)))
    boxes, chain, body = _lanes(piece.body, serial)
    flat = bool(chain) and not _tiled(body, exact) or serial
    emitter = Emitter(kernel, chain, flat, serial, exact)
    emitter.block((*boxes, *body), emitter.scope)
    locals_ = [_per_lane(b, emitter.lanes) for b in kernel.locals if b.name in emitter.scope.locals]
    known = {b.name: b for b in (*kernel.inputs, *kernel.outputs, *piece.scratch, *locals_)}
    used = loaded(piece.body) | stored(piece.body)
    buffers = tuple(b for n, b in known.items() if n in used)
    private = tuple(b for b in (*piece.scratch, *locals_) if b.name in used)
    sizes = _sizes(kernel, piece, private)
    return Launch(
        name,
        _function(name, buffers, sizes, emitter),
        buffers,
        frozenset(stored(piece.body)),
        private,
        sizes,
        emitter.lanes,
        tuple(emitter.columns),
        flat,
        emitter.strided,
    )


def _atomic(stmt: Store, exact: bool) -> bool:
    if stmt.mode == "set":
        return True
    rounds = exact and kind(stmt.value.dtype) == "f" and stmt.mode == "add"
    return stmt.value.dtype.name in ATOMIC_TYPES.get(stmt.mode, ()) and not rounds


def _lanes(body: tuple[Stmt, ...], serial: bool) -> tuple[tuple[Stmt, ...], tuple[Loop, ...], tuple[Stmt, ...]]:
    """The Lets in front, the perfectly nested parallel loops, and what is inside them."""
    chain: list[Loop] = []
    rest = body[-1:]
    while not serial:
        match rest:
            case (Loop(parallel=True) as loop,) if _independent(loop.extent, chain):
                chain.append(loop)
                rest = loop.body
            case _:
                break
    return (body[:-1], tuple(chain), rest) if chain else ((), (), body)


def _independent(extent: Any, chain: list[Loop]) -> bool:
    return not sympy.sympify(extent).free_symbols & {loop.var for loop in chain}


def _tiled(body: tuple[Stmt, ...], exact: bool) -> bool:
    return any(loop.vector or scannable(loop, exact) for loop in of_class(Loop, statements(body)))


def _per_lane(buffer: Buffer, lanes: sympy.Expr) -> Buffer:
    return replace(buffer, shape=(lanes, *buffer.shape))


def _sizes(kernel: Kernel, piece: Piece, private: tuple[Buffer, ...]) -> tuple[sympy.Symbol, ...]:
    used = names_used(piece.body) | {s.name for b in private for d in b.shape for s in sympy.sympify(d).free_symbols}
    return tuple(s for s in kernel.sizes if s.name in used)


def _function(name: str, buffers: tuple[Buffer, ...], sizes: tuple[sympy.Symbol, ...], emitter: Emitter) -> str:
    params = [f"{safe(b.name)}_ptr" for b in buffers] + [safe(s.name) for s in sizes]
    params += [f"{c}: tl.constexpr" for c in ("IDX", "R", "C")]
    casts = [f"    {safe(s.name)} = tl.cast({safe(s.name)}, IDX)" for s in sizes]
    lines = [f"@triton.jit\ndef {name}({', '.join(params)}):", *casts, *emitter.prelude(), *emitter.lines]
    return "\n".join(lines) + "\n"
