"""Rows too short for lanes of their own: the lanes go across the rows, each has one row to itself.

    before:  parallel i < 2000: vector j < 5: row0[j] = mul(x[i], c[j])             5 of 16 lanes have work, and what
                                vector j < 5: acc a: argmin i32 = row0[j] at j      they find is folded lane by lane
                                out[i] = a
    after:   parallel vector i < 2000: for j < 5: row0[j] = mul(x[i], c[j])
                                       for j < 5: acc a: argmin i32 = row0[j] at j
                                       out[i] = a

Each lane has a copy of the scratch. The price is that lanes no longer lie side by side in memory: whether it is worth
paying is a comparison of costs, in additions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.kernel_ir.loops import (
    Apply,
    Expr,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    below,
    inner_loops,
    is_nest,
    statements,
)
from dynacomp.lowering.kernel_ir.scalars import SCALARS
from dynacomp.lowering.sizes.indexing import coefficient, hint

LANES = 16
SHORT, MOST = 12, 64
"""Lanes of a row that may be too few; elements of a row that have room in scratch, once for each lane."""
FEWEST = 12
"""Rows that are worth lanes, a tail's even."""
NEAR = 4
"""How far apart lanes are still loaded as whole registers."""
FOLD, ARG_FOLD = 8, 50
"""Folding the lanes of a register."""


def crossed(kernel: Kernel) -> Kernel:
    """The Kernel, its short rows done side by side."""
    own = {b.name for b in kernel.locals}
    return replace(kernel, body=tuple(_statement(s, own) for s in kernel.body))


def _statement(stmt: Stmt, own: set[str]) -> Stmt:
    if not is_nest(stmt) or not stmt.parallel or stmt.vector:
        return stmt
    if any(loop.parallel for loop in inner_loops(stmt.body)):
        return replace(stmt, body=tuple(_statement(s, own) for s in stmt.body))
    if not _is_short(stmt) or _cost(stmt.body, None, own) <= _cost(stmt.body, stmt.var, own) / _filled(stmt):
        return stmt
    return replace(stmt, vector=True, body=_plain(stmt.body))


def _filled(rows: Loop) -> float:
    """Lanes that have a row, in the mean."""
    count = hint(rows.extent)
    return count / -(-count // LANES)


def _is_short(rows: Loop) -> bool:
    """Is a row nothing but short loops of which each can run in step?"""
    loops = [*of_class(Loop, statements(rows.body))]
    serial = any(loop.scans or loop.reverse or loop.after for loop in loops)
    sets = all(s.mode == "set" for s in of_class(Store, statements(rows.body)))
    lanes = [loop for loop in loops if loop.vector]
    return (bool(lanes) and not serial and sets and hint(rows.extent) >= FEWEST
            and all(loop.times <= SHORT for loop in lanes) and _elements(rows.body) <= MOST)


def _elements(body: Iterable[Stmt]) -> float:
    """How often the innermost statement runs in a row."""
    return max((loop.times * _elements(loop.body) for loop in inner_loops(body)), default=1)


def _cost(body: Iterable[Stmt], along: sympy.Symbol | None, own: set[str]) -> float:
    """Of a row, its vector loops as lanes (`along` None), or of a register of rows along that variable."""
    found = 0.0
    for stmt in body:
        lanes = stmt.var if along is None and is_nest(stmt) and stmt.vector else along
        inside = sum(_value(e, lanes, own) for e in stmt.exprs) + _cost(stmt.inside, lanes, own)
        if isinstance(stmt, Store):
            inside += _move(stmt.buffer, stmt.index, lanes, own)
        if lanes is along:
            found += inside * stmt.times
        else:
            found += inside + sum(ARG_FOLD if f.is_arg else FOLD for f in stmt.folds)
    return found


def _value(expr: Expr, along: sympy.Symbol | None, own: set[str]) -> float:
    parts = [*below([expr])]
    return 1 + sum(SCALARS[e.fn].cost for e in of_class(Apply, parts)) + sum(
        _move(e.buffer, e.index, along, own) for e in of_class(Load, parts))


def _move(buffer: str, index: sympy.Expr, along: sympy.Symbol | None, own: set[str]) -> float:
    """Loading or storing a register of lanes."""
    step = sympy.Integer(1) if along is None or buffer in own else coefficient(index, along)
    if step in (0, 1):
        return 1
    return 3 if step is not None and step.is_Integer and abs(step) <= NEAR else 2.5 * LANES


def _plain(body: Iterable[Stmt]) -> tuple[Stmt, ...]:
    return tuple(replace(s, vector=False, body=_plain(s.body)) if is_nest(s) else s for s in body)
