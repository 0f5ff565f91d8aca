"""Kernels as Triton source: one Kernel becomes one or more launches, each a `@triton.jit` function.

How loops map to a GPU. A launch's outer parallel loops are flattened into one range of `lanes`;
each program of the grid takes R of them. A `vector` loop inside is walked in tiles of C, so that
values have up to two axes:

    LANE  [R, 1]   depends on the parallel iteration      ([R] in a `flat` launch, which has no
    COL   [1, C]   depends on the vector iteration         vector loop below its lanes)

Every other loop is a `for` in the program, in step for all its lanes. Accumulators hold one value for
every (lane, column) and are folded over the columns once, after the loop. Tails are masked.

A launch with a read-modify-write that a GPU has no atomic for is `serial`: one lane, plain loops. A loop that does
nothing but atomic read-modify-writes is spread over lanes as parallel loops are, and so is an elementwise vector loop
that is all there is inside of them.

Where one tile is as wide as all tiled loops of a launch are long, its function `whole` has no loops: rows are read
once, and what a stage leaves for the next one (a local) stays in registers.

    launches = triton_launches(kernel, exact=False)
    print(launches[0].source)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.triton.emit import Emitter, accesses, tiled
from dynacomp.codegen.triton.expr import ATOMIC_TYPES
from dynacomp.codegen.triton.index import safe
from dynacomp.codegen.triton.launch import Piece, expressions, loaded, names_used, pieces, statements, stored
from dynacomp.lowering.kernel_ir.loops import Buffer, Expr, Kernel, Let, Load, Loop, Stmt, Store
from dynacomp.lowering.kernel_ir.scalars import kind
from dynacomp.lowering.sizes.symbols import symbol

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
    are not neighbours in memory. whole: the name of the function for rows that fit a tile, "" where there is none;
    it takes no pointers to `held`, the locals that it has in registers.
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
    whole: str = ""
    held: frozenset[str] = frozenset()


def triton_launches(kernel: Kernel, exact: bool = False) -> tuple[Launch, ...]:
    """The launches of one Kernel. `exact` gives up reassociation: no tiled sums, no float atomics."""
    parts = pieces(kernel)
    names = [kernel.name if len(parts) == 1 else f"{kernel.name}_{i}" for i in range(len(parts))]
    return tuple(_launch(kernel, part, safe(name), exact) for part, name in zip(parts, names))


def _launch(kernel: Kernel, piece: Piece, name: str, exact: bool) -> Launch:
    serial = not all(_atomic(s, exact) for s in of_class(Store, statements(piece.body)))
    chain, body = _lanes(piece.body, serial)
    flat = bool(chain) and not _tiled(body, exact) or serial
    emitter = Emitter(kernel, chain, flat, serial, exact)
    emitter.block(body, emitter.scope)
    locals_ = [_per_lane(b, emitter.lanes) for b in kernel.locals if b.name in emitter.scope.locals]
    known = {b.name: b for b in (*kernel.inputs, *kernel.outputs, *piece.scratch, *locals_)}
    used = loaded(piece.body) | stored(piece.body)
    buffers = tuple(b for n, b in known.items() if n in used)
    private = tuple(b for b in (*piece.scratch, *locals_) if b.name in used)
    sizes = _sizes(kernel, piece, private)
    texts = [_function(name, buffers, sizes, emitter)]
    kept = held(kernel, body, exact) if emitter.columns else frozenset()
    whole = f"{name}_whole" if emitter.columns else ""
    if whole:
        once = Emitter(kernel, chain, flat, serial, exact, kept)
        once.block(body, once.scope)
        texts.append(_function(whole, tuple(b for b in buffers if b.name not in kept), sizes, once))
    return Launch(
        name,
        "\n\n".join(texts),
        buffers,
        frozenset(stored(piece.body)),
        private,
        sizes,
        emitter.lanes,
        tuple(emitter.columns),
        flat,
        emitter.strided,
        whole,
        kept,
    )


def held(kernel: Kernel, body: tuple[Stmt, ...], exact: bool) -> frozenset[str]:
    """The locals that a tile as wide as the rows holds: each tiled loop reads and writes of them what is its own
    iteration's, and nothing else does."""
    names = {b.name for b in kernel.locals}
    inside = [s for loop in of_class(Loop, body) if tiled(loop, exact) for s in (loop, *statements(loop.inside))]
    lost = (loaded(body) | stored(body)) - names
    for stmt in statements(body):
        found = [(stmt.buffer, stmt.index)] if isinstance(stmt, Store) else []
        found += [(e.buffer, e.index) for e in of_class(Load, expressions(stmt))]
        own = {loop.var for loop in of_class(Loop, body) if stmt in (loop, *loop.inside)}
        plain = stmt in inside and not (isinstance(stmt, Store) and (stmt.mode != "set" or stmt.mask is not None))
        lost |= {name for name, place in found if not plain or {place} != own}
    return frozenset(names - lost)


def _atomic(stmt: Store, exact: bool) -> bool:
    if stmt.mode == "set":
        return True
    rounds = exact and kind(stmt.value.dtype) == "f" and stmt.mode == "add"
    return stmt.value.dtype.name in ATOMIC_TYPES.get(stmt.mode, ()) and not rounds


def _lanes(body: tuple[Stmt, ...], serial: bool) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The nested loops whose iterations are lanes, and what is inside them: each lane makes what is named on the way
    (Lets) for itself. Outermost are those whose neighbours are far apart in memory: atomic
    updates come row by row."""
    chain: list[Loop] = []
    lets: list[Stmt] = []
    rest = body
    while not serial:
        *before, last = rest or (None,)
        if not isinstance(last, Loop) or not all(isinstance(s, Let) for s in before) or not _free(last, chain, before):
            break
        if (across := _across(last, chain)) is not None:
            blocks, rest = _turned(last)
            chain = [*(loop for loop in chain if loop is not across), blocks, across]
            lets += before
            break
        if last.parallel or chain and last.vector and not (before or last.folds or last.after):
            chain.append(last)
        elif _updates(last):
            chain.insert(0, last)
        else:
            break
        lets += before
        rest = last.body
    return (tuple(chain), (*lets, *rest)) if chain else ((), body)


TURN = 64  # columns of the tiles that are turned


def _across(loop: Loop, chain: list[Loop]) -> Loop | None:
    """The loop of a chain along which an elementwise innermost loop reads or writes neighbours in memory, where others
    lie along itself: as in a transpose. None where there is none, or tiles do not fit."""
    plain = all(isinstance(s, Let) or isinstance(s, Store) and s.mode == "set" for s in loop.body)
    if not plain or loop.folds or loop.after or not loop.extent.is_Integer or loop.extent % TURN:
        return None
    places = [sympy.expand(p) for s in loop.body for p in accesses(s)]
    along = any(p.coeff(loop.var, 1) == 1 for p in places)
    turned = [o for o in chain for p in places if p.coeff(o.var, 1) == 1 and p.coeff(loop.var, 1) not in (0, 1)]
    return turned[0] if along and turned else None


def _turned(loop: Loop) -> tuple[Loop, tuple[Stmt, ...]]:
    """A loop over blocks of the iterations of `loop`, and what is inside: a vector loop over one block. Tiles of lanes
    and columns are then read along the one and written along the other, by way of shared memory."""
    block = symbol(f"{loop.var.name}_block")
    change = lambda place: place.xreplace({loop.var: TURN * block + loop.var})
    fn: Callable[[Expr], Expr] = lambda expr: expr.mapped(fn, change)
    body = tuple(s.mapped(fn, change) for s in loop.body if isinstance(s, (Let, Store)))
    inside = Loop(loop.var, sympy.Integer(TURN), body, vector=True)
    return Loop(block, loop.extent / TURN, (inside,), parallel=True), (inside,)


def _updates(loop: Loop) -> bool:
    """Whether a loop does nothing but read-modify-writes of what it does not read: in any order."""
    inside = [*statements(loop.body)]
    loops = [loop, *of_class(Loop, inside)]
    plain = all(isinstance(s, (Let, Loop)) or isinstance(s, Store) and s.mode != "set" for s in inside)
    read = {e.buffer for s in inside for e in of_class(Load, expressions(s))}
    return plain and not any(o.folds or o.after or o.reverse for o in loops) and not read & stored((loop,))


def _free(loop: Loop, chain: list[Loop], before: list[Stmt]) -> bool:
    """Whether the extent of a loop is the same for all iterations of those around it."""
    names = {loop.var.name for loop in chain} | {name for s in before for name, _ in s.defines}
    return not names & {s.name for s in sympy.sympify(loop.extent).free_symbols}


def _tiled(body: tuple[Stmt, ...], exact: bool) -> bool:
    return any(tiled(loop, exact) for loop in of_class(Loop, statements(body)))


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
