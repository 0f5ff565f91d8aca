"""What a row's lanes compute alike for every row is computed once, into a row of scratch.

    before:  for i < n: vector j < 64: y[64*i + j] = mul(x[64*i + j], div(s[FloorDiv(j, 8)], f32(8192.0)))
    after:   vector j < 64: row0[j] = div(s[FloorDiv(j, 8)], f32(8192.0))
             for i < n: vector j < 64: y[64*i + j] = mul(x[64*i + j], row0[j])

What lanes fold is computed so too: a query that is rotated before it meets every key. Where threads share the rows,
on CPUs, they share blocks of them, and each block has scratch of its own: distances of all pairs of points, whose
coordinates lie apart in memory.

Worth it for what is dear: loads across memory, divisions in indices, costly functions. Values that do not
change along the lanes either were moved out by `emit` before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.fuse.blocking import blocks
from dynacomp.lowering.kernel_ir.loops import (
    Apply,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Ref,
    Stmt,
    Store,
    inner_loops,
    is_nest,
)
from dynacomp.lowering.kernel_ir.scalars import SCALARS
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod, coefficient, hint

FEWEST, LONGEST = 8, 4096
"""Rows that pay for the scratch; lanes in a row that still stay in the L1 cache."""
LARGEST = 100
"""Expressions inside one whole value: where names are read twice, each in the next, whole values double each time."""
COSTLY = 4
BLOCK, FEWEST_BLOCKS = 16, 8
"""Rows of a block, and how many blocks there must be, so that there is work for every thread: else smaller ones."""


@dataclass(eq=False)
class _Row:
    """One vector loop's steady values, in which nothing `moving` occurs; `lets` are those that have names."""

    kernel: Kernel
    lanes: Loop
    moving: frozenset[str]
    taken: int
    lets: dict[str, Expr] = field(default_factory=dict)
    found: dict[Expr, Buffer] = field(default_factory=dict)

    def statement(self, stmt: Stmt) -> Stmt:
        """A Let or a Store that reads from scratch. A Let that is steady stays, for those who find it cheap."""
        match stmt:
            case Let(name, value) if _is_small(whole := self.whole(value)) and _is_steady(whole, self.moving):
                self.lets[name] = whole
                return stmt
            case Let(_, value) | Store(value=value):
                return replace(stmt, value=self.swapped(value))
        raise ValueError("a row has no loops inside")

    def whole(self, expr: Expr) -> Expr:
        """`expr` without the names of steady values."""
        match expr:
            case Ref(name):
                return self.lets.get(name, expr)
        return expr.mapped(self.whole)

    def swapped(self, expr: Expr) -> Expr:
        """`expr` with its largest steady and costly parts read from scratch."""
        whole = self.whole(expr)
        if _is_small(whole) and _is_steady(whole, self.moving) and _dear(whole, self.lanes.var) >= COSTLY:
            expr = whole
            name = f"steady{self.taken + len(self.found)}"
            buffer = self.found.setdefault(expr, Buffer(name, (self.lanes.extent,), expr.dtype))
            return Load(buffer.name, self.lanes.var, expr.dtype)
        return expr.mapped(self.swapped)


def hoisted(kernel: Kernel, blocked: bool = False) -> Kernel:
    """The kernel with the steady parts of its rows in scratch; the kernel itself where there are none. `blocked`: the
    rows that threads share may become blocks of rows."""
    body, rows = _statements(kernel, kernel.body, 1 if blocked else 0, False, ())
    return replace(kernel, body=body, locals=(*kernel.locals, *rows)) if rows else kernel


def _statements(
    kernel: Kernel, body: Iterable[Stmt], times: int, threaded: bool, rows: tuple[Buffer, ...]
) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...]]:
    """The statements, and the rows of scratch so far; `times`: how often parallel loops run them (0: no blocks)."""
    out: list[Stmt] = []
    for stmt in body:
        if is_nest(stmt) and not stmt.vector:
            if threaded and not stmt.parallel and (row := _row_of(kernel, stmt, len(rows))) is not None:
                more, stmt = row
                rows = (*rows, *more.found.values())
                out.append(_filled(more))
            else:
                stmt = _shared(kernel, stmt, times)
                inside = times * hint(stmt.extent) if stmt.parallel else 0
                inner, rows = _statements(kernel, stmt.body, inside, threaded or stmt.parallel, rows)
                stmt = replace(stmt, body=inner)
        out.append(stmt)
    return tuple(out), rows


def _shared(kernel: Kernel, loop: Loop, times: int) -> Loop:
    """The loop; one over blocks of rows where threads share rows that have something steady."""
    rows = times * hint(loop.extent)
    size = BLOCK if rows >= BLOCK * FEWEST_BLOCKS else FEWEST
    if not loop.parallel or rows < FEWEST * FEWEST_BLOCKS or hint(loop.extent) < size or not _row_of(kernel, loop, 0):
        return loop
    return blocks(loop, sympy.Integer(size), lambda n: [replace(loop, extent=n, parallel=False)])


def _row_of(kernel: Kernel, loop: Loop, taken: int) -> tuple[_Row, Loop] | None:
    """The steady values of a loop around one vector loop, and the loop that reads them."""
    if loop.accs or loop.scans or loop.after or len(inner_loops(loop.body)) != 1:
        return None
    (lanes,) = inner_loops(loop.body)
    if not lanes.vector or lanes.after:
        return None
    if hint(loop.extent) < FEWEST or hint(lanes.extent) > LONGEST or inner_loops(lanes.body):
        return None
    inside = (*loop.body, *lanes.body)
    made = {s.name for s in of_class(Let, inside)} | {a.name for a in lanes.accs} | {
        s.buffer for s in of_class(Store, inside)}
    row = _Row(kernel, lanes, frozenset({loop.var.name} | made), taken)
    body = tuple(map(row.statement, lanes.body))
    accs = tuple(replace(a, value=row.swapped(a.value)) for a in lanes.accs)
    faster = replace(lanes, body=body, accs=accs)
    return (row, replace(loop, body=tuple(faster if s is lanes else s for s in loop.body))) if row.found else None


def _filled(row: _Row) -> Loop:
    """The vector loop that computes the scratch rows."""
    stores = tuple(Store(buffer.name, row.lanes.var, value) for value, buffer in row.found.items())
    return replace(row.lanes, body=stores, accs=())


def _is_small(expr: Expr) -> bool:
    """At most `LARGEST` expressions in it, counted as often as they occur."""
    rest, count = [expr], 0
    while rest and count <= LARGEST:
        rest += rest.pop().children
        count += 1
    return not rest


def _is_steady(expr: Expr, moving: frozenset[str]) -> bool:
    """The same for each row: nothing in it that the row's loop, its Lets or its Stores change."""
    match expr:
        case Const():
            return True
        case Ref(name):
            return name not in moving
        case Index(index):
            return _is_free(index, moving)
        case Load(buffer, index, _, mask, other):
            parts = [e for e in (mask, other) if e is not None]
            return buffer not in moving and _is_free(index, moving) and all(_is_steady(e, moving) for e in parts)
        case Apply(_, args):
            return all(_is_steady(a, moving) for a in args)
    raise TypeError(f"not a Kernel expression: {expr!r}")


def _is_free(index: sympy.Expr, moving: frozenset[str]) -> bool:
    return all(s.name not in moving for s in index.free_symbols)


def _dear(expr: Expr, var: sympy.Symbol) -> int:
    """What computing `expr` costs in each lane, in additions."""
    match expr:
        case Apply(fn, args):
            return SCALARS[fn].cost + sum(_dear(a, var) for a in args)
        case Load(_, index):
            return 0 if coefficient(index, var) in (0, 1) else 16
        case Index(index):
            return 16 if index.has(FloorDiv, FloorMod) else 0
    return 0
