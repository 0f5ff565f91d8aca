"""How much work a loop body is, in rough cycles: it decides the grain of threads and unrolling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.index import index_code
from dynacomp.lowering.kernel_ir.loops import (
    Apply,
    Index,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    inner_loops,
    is_nest,
    statements,
)
from dynacomp.lowering.kernel_ir.scalars import SCALARS

SMALL = 3000
"""Cycles of a kernel that is not worth lanes or threads inside a small loop."""

CYCLES_PER_THREAD = 20_000
"""What each thread has at least: with less to do, waking it costs more than it saves."""


def cost(body: Sequence[Stmt], accs: Sequence[Any] = ()) -> float:
    """Cycles of one scalar iteration of `body`, loops inside counted once."""
    return sum(map(_stmt, body)) + sum(1 + expr_cost(a.value) for a in accs)


def _stmt(stmt: Stmt) -> float:
    return sum(map(_stmt, stmt.inside)) + _own(stmt)


def _own(stmt: Stmt) -> float:
    """Cycles of a statement, without those of the statements inside."""
    return sum(map(expr_cost, stmt.values)) + len(stmt.folds) + 2 * len(stmt.writes)


def is_small(kernel: Kernel) -> bool:
    """Is all of a kernel little work, of known size?"""
    return cycles(kernel.body) <= SMALL


def cycles(body: Sequence[Stmt]) -> float:
    """Cycles of `body`, every iteration counted; infinite where some extent is unknown."""
    return sum(s.times * (cycles(s.inside) + _own(s)) for s in body)


def iterations(loop: Loop) -> float:
    """How often the innermost bodies of a loop run; infinite where that is unknown."""
    return loop.times * max(1, sum(map(iterations, inner_loops(loop.inside))))


def expr_cost(expr: Any) -> float:
    """Cycles of one scalar evaluation."""
    match expr:
        case Apply(fn, args):
            return SCALARS[fn].cost + sum(map(expr_cost, args))
        case Load(_, _, _, mask, other):
            return 2 + sum(expr_cost(e) for e in (mask, other) if e is not None)
        case Index():
            return 1
    return 0


def stores_in(loop: Loop) -> Iterator[Store]:
    """Every Store in a loop, at any depth."""
    return of_class(Store, statements(loop.inside))


def grain(work: str) -> str:
    """Iterations worth a thread of their own, when one costs `work` cycles."""
    return f"grain_of({CYCLES_PER_THREAD}.0, {work})"


def work_of(loop: Loop, lanes: int) -> str:
    """The estimated cycles of one iteration of `loop`, as a C++ double; `lanes` iterations share them."""
    own = cost([s for s in loop.body if not is_nest(s)], loop.accs)
    parts = [f"{max(own / lanes, 0.05):.3f}"]
    for inner in inner_loops(loop.inside):
        across = 8 if inner.vector and lanes == 1 else lanes
        moving = [v for v in inner.extent.free_symbols if not v.is_positive]
        first = inner.extent.xreplace(dict.fromkeys(moving, sympy.Integer(0)))  # as in the first iteration
        parts.append(f"(double)({index_code(first)})*({work_of(inner, across)})")
    return " + ".join(parts)
