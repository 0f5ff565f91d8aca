"""How much work a loop body is, in rough cycles: it decides the grain of threads and unrolling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dynacomp.lowering.kernel_ir.loops import Apply, Index, Load, Loop, Stmt, Store, folds
from dynacomp.lowering.kernel_ir.scalars import SCALARS


def cost(body: Sequence[Stmt], accs: Sequence[Any] = ()) -> float:
    """Cycles of one scalar iteration of `body`, loops inside counted once."""
    return sum(map(_stmt, body)) + sum(1 + expr_cost(a.value) for a in accs)


def _stmt(stmt: Stmt) -> float:
    if isinstance(stmt, Loop):
        return cost((*stmt.body, *stmt.after), folds(stmt))
    return expr_cost(stmt.value) + (2 if isinstance(stmt, Store) else 0)


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
    for stmt in (*loop.body, *loop.after):
        if isinstance(stmt, Store):
            yield stmt
        elif isinstance(stmt, Loop):
            yield from stores_in(stmt)
