"""Lanes that take their position apart become two loops, of which the inner one's lanes lie side by side.

    before:  vector j < 192: y[j] = x[64*FloorDiv(j, 24) + FloorMod(j, 24)]       a division for each lane
    after:   for jd < 8: vector j < 24: y[24*jd + j] = x[64*jd + j]

Patches, windows and heads that are moved as blocks are read so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.kernel_ir.loops import Expr, Kernel, Load, Loop, Stmt, below, inner_loops
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod, coefficient, distribute, divmod_index
from dynacomp.lowering.sizes.symbols import symbol

FEWEST = 8
"""Lanes of an inner loop that are worth it."""
Change = Callable[[sympy.Expr], sympy.Expr]


def taken_apart(kernel: Kernel) -> Kernel:
    """The Kernel, its vector loops cut where their lanes divide their position."""
    own = frozenset(b.name for b in kernel.locals)
    return replace(kernel, body=tuple(_statement(s, {}, own) for s in kernel.body))


def _statement(stmt: Stmt, ranges: Mapping[sympy.Symbol, sympy.Expr], own: frozenset[str]) -> Stmt:
    match stmt:
        case Loop(vector=True):
            return _cut(stmt, ranges, own)
        case Loop(var, extent, body):
            inside = {**ranges, var: extent}
            return replace(stmt, body=tuple(_statement(s, inside, own) for s in body))
    return stmt


def _cut(loop: Loop, ranges: Mapping[sympy.Symbol, sympy.Expr], own: frozenset[str]) -> Loop:
    plain = not (loop.accs or loop.scans or loop.after or loop.reverse or inner_loops(loop.body))
    if not plain or not loop.extent.is_Integer or _buffers(loop) & own or not _divides(loop):
        return loop
    loop = _changed(loop, _joined)
    found = {atom.args[1] for i in _indices(loop) for atom in i.atoms(FloorDiv, FloorMod) if atom.args[0] == loop.var}
    fits = [n for n in found if n.is_Integer and n >= FEWEST and loop.extent % n == 0 and n < loop.extent]
    for by in sorted(fits, reverse=True):
        cut = _in_two(loop, by, ranges)
        if not _divides(cut):
            return cut
    return loop


def _in_two(loop: Loop, by: sympy.Expr, ranges: Mapping[sympy.Symbol, sympy.Expr]) -> Loop:
    """A loop over blocks of `by` lanes."""
    outer = symbol(f"{loop.var.name}d")
    inside = {**ranges, loop.var: by, outer: loop.extent / by}
    inner = replace(_changed(loop, lambda i: _moved(i, {loop.var: by * outer + loop.var}, inside)), extent=by)
    return replace(loop, var=outer, extent=loop.extent / by, body=(inner,), vector=False)


def _divides(loop: Loop) -> bool:
    """Does some lane divide its position?"""
    (lanes,) = inner_loops(loop.body) or (loop,)
    return any(lanes.var in atom.free_symbols for i in _indices(lanes) for atom in i.atoms(FloorDiv, FloorMod))


def _moved(expr: sympy.Expr, table: Mapping[sympy.Expr, sympy.Expr],
           ranges: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """`expr` with other positions, free of the divisions that they spare."""
    if isinstance(expr, (FloorDiv, FloorMod)):
        top, by = (_moved(a, table, ranges) for a in expr.args)
        return divmod_index(sympy.expand(top), by, ranges)[isinstance(expr, FloorMod)]
    if not expr.args:
        return table.get(expr, expr)
    return sympy.expand(expr.func(*(_moved(a, table, ranges) for a in expr.args)))


def _joined(expr: sympy.Expr) -> sympy.Expr:
    """Digits put together: (a // b) // c is a // (b*c), and a % b + b*((a // b) % c) is a % (b*c)."""
    expr = expr.replace(lambda e: isinstance(e, FloorDiv) and isinstance(e.args[0], FloorDiv),
                        lambda e: FloorDiv(e.args[0].args[0], e.args[0].args[1] * e.args[1]))
    for high in expr.atoms(FloorMod):
        scale = coefficient(expr, high)
        if not isinstance(high.args[0], FloorDiv) or not scale:
            continue
        (a, b), c = high.args[0].args, high.args[1]
        low = coefficient(expr, FloorMod(a, b))
        if low and distribute(low * b) == scale:
            return _joined(expr - scale * high - low * FloorMod(a, b) + low * FloorMod(a, b * c))
    return expr


# ---- what a loop's body holds ------------------------------------------------------------------

def _exprs(loop: Loop) -> Iterator[Expr]:
    return below(e for stmt in loop.body for e in stmt.exprs)


def _buffers(loop: Loop) -> frozenset[str]:
    return frozenset(name for stmt in loop.body for name in stmt.writes) | {
        e.buffer for e in of_class(Load, _exprs(loop))}


def _indices(loop: Loop) -> list[sympy.Expr]:
    return [*(i for stmt in loop.body for i in stmt.places), *(e.place for e in _exprs(loop) if e.place is not None)]


def _changed(loop: Loop, change: Change) -> Loop:
    """The loop, its body's indices changed."""
    def in_value(expr: Expr) -> Expr:
        return expr.mapped(in_value, change)  # type: ignore[no-any-return]

    return replace(loop, body=tuple(stmt.mapped(in_value, change) for stmt in loop.body))  # type: ignore[union-attr]
