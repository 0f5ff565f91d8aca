"""What is left to do with a row's folds is done for a block of rows at once, lane by lane.

    before:  parallel i < 1024: vector j < 64: acc a: sum f32 = mul(w[64*i + j], x[j])
                                y[i] = tanh(a)                               one element at a time
    after:   parallel ib < 16: for i < 64: vector j < 64: acc a: sum f32 = mul(w[4096*ib + 64*i + j], x[j])
                                           kept0[i] = a
                               vector i < 64: y[64*ib + i] = tanh(kept0[i])

Worth it where that rest is dear beside the folds: a product by a vector with an activation behind it, kernels of
distances, logarithms of sums. On CPUs only: a GPU's lanes are threads, of which a row has enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.kernel_ir.loops import (
    Acc,
    Apply,
    Buffer,
    Expr,
    Kernel,
    Load,
    Loop,
    Ref,
    Stmt,
    Store,
    below,
    inner_loops,
    is_nest,
    statements,
)
from dynacomp.lowering.kernel_ir.scalars import DEAR, SCALARS
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod, coefficient, hint
from dynacomp.lowering.sizes.symbols import symbol

BLOCKS, UNEVEN = (64, 32, 16), 32
"""Rows of a block: the first that divides the rows, or so many, of which the last block has fewer."""
MOST = 4
"""Values of a row that are kept for its rest."""
SHARE = 32
"""How many times dearer than the rest a row may be; one that is dearer gains nothing, and may be one of few."""
WORK = 3000
"""Of all rests together, in additions: less is no work for lanes (see `codegen.cpp.cost`)."""
LANES = 8


@dataclass(eq=False)
class _Rows:
    """A loop over rows: `head`, to its last loop, and the `rest` behind, which reads what `kept` rows of scratch are to
    hold of the names in `head`; `size`: how many make a block."""

    loop: Loop
    head: tuple[Stmt, ...]
    rest: tuple[Stmt, ...]
    size: sympy.Integer
    kept: Mapping[str, Buffer]

    def filled(self) -> list[Stmt]:
        """The rows without their rest."""
        return [*self.head, *(Store(b.name, self.loop.var, Ref(name, b.dtype)) for name, b in self.kept.items())]

    def rests(self) -> list[Stmt]:
        """The rest, with the kept values read."""
        def read(expr: Expr) -> Expr:
            match expr:
                case Ref(name, dtype) if name in self.kept:
                    return Load(self.kept[name].name, self.loop.var, dtype)
            return expr.mapped(read)  # type: ignore[no-any-return]

        return [stmt.mapped(read) for stmt in self.rest]  # type: ignore[union-attr]


def in_blocks(kernel: Kernel) -> Kernel:
    """The Kernel, its rows in blocks where that is worth it."""
    kept: list[Buffer] = []
    body = tuple(t for s in kernel.body for t in _statement(s, 1, kept))
    return replace(kernel, body=body, locals=(*kernel.locals, *kept)) if kept else kernel


def _statement(stmt: Stmt, outer: int, kept: list[Buffer]) -> Sequence[Stmt]:
    """What stands for a statement that runs `outer` times; `kept` grows by the scratch that it needs."""
    if not is_nest(stmt) or not stmt.parallel or stmt.vector:
        return (stmt,)
    if any(loop.parallel for loop in inner_loops(stmt.body)):
        times = outer * hint(stmt.extent)
        return (replace(stmt, body=tuple(t for s in stmt.body for t in _statement(s, times, kept))),)
    rows = _rows_of(stmt, outer, len(kept))
    if rows is None:
        return (stmt,)
    kept += rows.kept.values()
    return _whole(rows, stmt.extent) if outer > 1 and rows.size == stmt.extent else (_blocks(rows),)


def _rows_of(loop: Loop, outer: int, taken: int) -> _Rows | None:
    """The rows of a parallel loop that are worth blocks."""
    last = max((k for k, s in enumerate(loop.body) if is_nest(s)), default=None)
    if last is None or loop.after:
        return None
    head, rest = loop.body[:last + 1], loop.body[last + 1:]
    made = {name: dtype for s in head for name, dtype in s.defines}
    read = {e.name: e.dtype for s in rest for e in of_class(Ref, below(s.exprs)) if e.name in made}
    if not read or len(read) > MOST or not _in_lanes(rest, loop, made, head):
        return None
    dear = _work(rest)
    if dear < DEAR or dear * SHARE < _work(head) or dear * outer * hint(loop.extent) < WORK:
        return None
    size = _size(loop, outer)
    kept = {name: Buffer(f"kept{taken + k}", (size,), dtype) for k, (name, dtype) in enumerate(read.items())}
    return _Rows(loop, head, rest, size, kept)


def _in_lanes(rest: Sequence[Stmt], loop: Loop, made: Iterable[str], head: Sequence[Stmt]) -> bool:
    """Can the rest of neighbouring rows be lanes side by side, and is nothing in the way of blocks?"""
    stores, loads = [*of_class(Store, rest)], [*of_class(Load, _exprs(rest))]
    written = {name for s in statements(head) for name in s.writes}
    if any(s.mode != "set" for s in stores) or any(e.buffer in written for e in loads) or written.intersection(
            s.buffer for s in stores):
        return False
    if any(i.has(FloorDiv, FloorMod) and loop.var in i.free_symbols for i in _indices([*head, *rest])):
        return False
    if any(v.name in made for i in _indices(rest) for v in i.free_symbols):
        return False
    return all(coefficient(s.index, loop.var) == 1 for s in stores) and all(
        coefficient(e.index, loop.var) in (0, 1) for e in loads)


def _whole(rows: _Rows, extent: sympy.Expr) -> tuple[Loop, Loop]:
    """The rows of one block, then their rests."""
    inside = replace(rows.loop, extent=extent, body=tuple(rows.filled()), parallel=False)
    return inside, replace(inside, body=tuple(rows.rests()), vector=True)


def _blocks(rows: _Rows) -> Loop:
    """The loop over blocks."""
    return blocks(rows.loop, rows.size, lambda n: _whole(rows, n), {b.name for b in rows.kept.values()})


def blocks(loop: Loop, size: sympy.Integer, inside: Callable[[sympy.Expr], Sequence[Stmt]],
           own: Collection[str] = ()) -> Loop:
    """A loop over blocks of `size` of the iterations of `loop`, of which the last may have fewer. `inside` gives what
    one does with so many iterations counted from 0; the buffers `own` hold a block's values by that count."""
    block = symbol(f"{loop.var.name}b")
    even = loop.extent.is_Integer and loop.extent % size == 0
    number = loop.extent / size if even else FloorDiv(loop.extent + size - 1, size)
    extent = size if even else sympy.Min(size, loop.extent - size * block)
    table = {loop.var: size * block + loop.var}
    return replace(loop, var=block, extent=number, body=tuple(_moved(s, table, own) for s in inside(extent)))


def _size(loop: Loop, outer: int) -> sympy.Integer:
    """Rows of a block: all of a short loop that stands in another."""
    if not loop.extent.is_Integer:
        return sympy.Integer(UNEVEN)
    if outer > 1 and loop.extent <= BLOCKS[0]:
        return loop.extent
    return sympy.Integer(next((n for n in BLOCKS if loop.extent % n == 0), UNEVEN))


def _moved(stmt: Stmt, table: Mapping[sympy.Symbol, sympy.Expr], own: Collection[str]) -> Stmt:
    """The statement at other positions; rows of scratch are as they were."""
    def change(index: sympy.Expr) -> sympy.Expr:
        return sympy.expand(index.xreplace(table))

    def value(expr: Expr) -> Expr:
        return expr if isinstance(expr, Load) and expr.buffer in own else expr.mapped(value, change)

    def fold(one: Acc) -> Acc:
        return replace(one, value=value(one.value), position=one.position and change(one.position))

    match stmt:
        case Loop(extent=extent, body=body, accs=accs, scans=scans, after=after):
            inside, behind = (tuple(_moved(s, table, own) for s in part) for part in (body, after))
            running = tuple(replace(s, value=value(s.value)) for s in scans)
            return replace(stmt, extent=change(extent), body=inside, accs=tuple(map(fold, accs)), scans=running,
                           after=behind)
        case Store(buffer) if buffer in own:
            return stmt.mapped(value)
    return stmt.mapped(value, change)


# ---- what statements hold ----------------------------------------------------------------------

def _work(body: Iterable[Stmt]) -> float:
    """Additions of a body, what lanes do together counted once."""
    found = 0.0
    for stmt in body:
        lanes = LANES if is_nest(stmt) and stmt.vector else 1
        times = hint(stmt.extent) if is_nest(stmt) else 1
        own = sum(1 + SCALARS[e.fn].cost for e in of_class(Apply, below(stmt.exprs))) + len(stmt.folds)
        found += max(1.0, times / lanes) * (own + _work(stmt.inside))
    return found


def _exprs(body: Iterable[Stmt]) -> Iterator[Expr]:
    return below(e for s in statements(body) for e in s.exprs)


def _indices(body: Sequence[Stmt]) -> Iterator[sympy.Expr]:
    for stmt in statements(body):
        yield from stmt.places
    yield from (e.place for e in _exprs(body) if e.place is not None)
