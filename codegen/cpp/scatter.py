"""Read-modify-write stores whose lanes never meet: the rows of a scatter, spread over threads and lanes.

    before:  parallel vector v < 128: for u < n: y[128*row + v] add= ...     in the order of the loops, serial
    after:   threads over v; for u < n: lanes over the thread's share of v

No two iterations of `v` touch one element, as the rest of the index is made of multiples of 128. Each
element still meets its updates in their order, so results do not depend on the threads. With the lanes
inside, each update walks along memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.cost import stores_in
from dynacomp.codegen.cpp.expr import Scope, depends
from dynacomp.codegen.cpp.index import names_in, step_along
from dynacomp.codegen.cpp.shape import Unit, lane_width, loads
from dynacomp.lowering.kernel_ir.loops import Let, Loop, Stmt, inner_loops, statements


def apart(loop: Loop) -> bool:
    """Is it certain that no two iterations of `loop` touch one element of a buffer that is written?"""
    written = {s.buffer for s in stores_in(loop)}
    return written.isdisjoint(_loaded(loop)) and all(_walks_alone(s.index, loop) for s in stores_in(loop))


def _walks_alone(index: sympy.Expr, loop: Loop) -> bool:
    """Is `index` of the form `step*v + rest`, all of `rest` multiples of `step*extent`?"""
    step = step_along(index, loop.var.name)
    if step is None or step == 0:
        return False
    rest = sympy.expand(index - step * loop.var)
    return all(_is_multiple(term, step * loop.extent) for term in sympy.Add.make_args(rest))


def _is_multiple(term: sympy.Expr, of: sympy.Expr) -> bool:
    return bool(sympy.cancel(term / of).as_numer_denom()[1] == 1)


def _loaded(loop: Loop) -> Iterator[str]:
    """The buffers that a loop loads from, at any depth (what an update itself reads aside)."""
    return (name for stmt in statements([loop]) for name in loads(*stmt.exprs))


def inside_out(loop: Loop, unit: Unit) -> tuple[Loop, Loop] | None:
    """(updates, lanes): the loop over updates with what all lanes have in common, and the vector loop to
    run in each; None where `loop` is not a vector loop around one plain loop of updates."""
    if not loop.vector or loop.after or len(loop.body) != 1 or unit.locals or not lane_width(loop, unit):
        return None
    updates = next(of_class(Loop, loop.body), None)
    if updates is None or updates.folds or updates.after or not apart(loop):
        return None
    if inner_loops(updates.body) or loop.var.name in names_in(updates.extent):
        return None
    common, own = _divided(updates.body, Scope(var=loop.var.name))
    return replace(updates, body=tuple(common)), replace(loop, body=tuple(own))


def _divided(body: Sequence[Stmt], scope: Scope) -> tuple[list[Stmt], list[Stmt]]:
    """The Lets that are the same for all lanes, and the rest."""
    common: list[Stmt] = []
    own: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Let(name, value) if depends(value, scope):
                own.append(stmt)
                scope = scope.having(name)
            case Let():
                common.append(stmt)
            case _:
                own.append(stmt)
    return common, own
