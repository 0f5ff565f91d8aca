"""A vector loop cut where its conditions change their answers: padding, pieces that are joined, a grid that is rolled.

    before:  for j < 256: out[j] = x[j + 1] if j < 255 else x[0]
    after:   for j < 240: out[j] = x[j + 1]          whole registers, none of which asks
             for the rest: as before
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.index import names_in, step_along
from dynacomp.codegen.cpp.known import COMPARISONS, Known, bounds, difference
from dynacomp.lowering.kernel_ir.loops import Apply, Expr, Loop, Stmt, below

MOST = 3  # sections: each is the body once more
Section = tuple[int, int]


def sections(loop: Loop, known: Known, lanes: int) -> list[Section]:
    """Where in a vector loop [first, end) its conditions give one answer, for at least a register of `lanes`."""
    if not loop.extent.is_Integer:
        return []
    extent = int(loop.extent)
    cuts = {at for at in _cuts(loop.body, loop.var.name, known) if 0 < at < extent}
    wide = [(a, b) for a, b in pairwise(sorted({0, extent, *cuts})) if _registers(a, b, extent, lanes)] if cuts else []
    return sorted(sorted(wide, key=lambda s: s[0] - s[1])[:MOST])


def _registers(first: int, end: int, extent: int, lanes: int) -> int:
    """How many registers lie inside, of those that the loop has."""
    last = end if end == extent else end // lanes * lanes
    return max(0, last - -(-first // lanes) * lanes) // lanes


def _cuts(body: Sequence[Stmt], var: str, known: Known) -> Iterator[int]:
    """From which lanes on some comparison gives another answer."""
    for stmt in body:
        inside = known
        match stmt:
            case Loop(variable, extent) if extent.is_Integer:
                inside = known.within(variable.name, 0, int(extent) - 1)
        yield from _cuts(stmt.inside, var, inside)
        yield from (c for e in stmt.exprs for c in _changes(e, var, inside))


def _changes(expr: Expr, var: str, known: Known) -> Iterator[int]:
    for one in of_class(Apply, below([expr])):
        if one.fn in COMPARISONS and (apart := difference(one)) is not None:
            yield from _crossings(apart, COMPARISONS[one.fn][0], var, known)


def _crossings(apart: sympy.Expr, limit: int, var: str, known: Known) -> Iterator[int]:
    """From where on a sum lies on one side of a limit, whatever its other parts are."""
    step = step_along(apart, var)
    if var not in names_in(apart) or step is None or not step.is_Integer:
        return
    rest = [term for term in sympy.Add.make_args(apart) if var not in names_in(term)]
    for end in set(bounds(sympy.Add(*rest), known)):
        if math.isfinite(end):  # step*j + end < limit changes at
            yield math.ceil((limit - end) / int(step)) if step > 0 else math.floor((limit - end) / int(step)) + 1
