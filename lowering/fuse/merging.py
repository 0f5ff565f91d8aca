"""Neighbouring loops become one wherever no index expression tells them apart.

before:  for i < n: for j < 32: out[32*i + j] = x[32*i + j]
after:   for j < 32*n: out[j] = x[j]

Lanes over a short loop (`joined`) take the loop around it too, where only what is read once says which is which:

before:  for g < 8: vector j < 8: for i < n: acc s: sum = sub(x[64*i + 8*g + j], m[g])
after:   vector j < 64: for i < n: acc s: sum = sub(x[64*i + j], m[FloorDiv(j, 8)])
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from dynacomp.lowering.sizes.indexing import ZERO, FloorDiv, FloorMod, coefficient, hint

Loops = tuple[tuple[sympy.Symbol, sympy.Expr], ...]


SHORT = 32
"""Fewer lanes than this do not fill the registers of a loop."""


def merged(
    loops: Sequence[tuple[sympy.Symbol, sympy.Expr]],
    indices: Sequence[sympy.Expr],
) -> tuple[tuple[tuple[sympy.Symbol, sympy.Expr], ...], dict[sympy.Symbol, sympy.Expr]]:
    """Loops joined from the inside out where no index tells them apart; what to substitute."""
    if len(loops) < 2:
        return tuple(loops), {}
    (a, a_extent), *others = loops
    rest, changes = merged(others, indices)
    if changes:
        indices = [i.xreplace(changes) for i in indices]
    b, b_extent = rest[0]
    if all(_crossed_in_one_stride(i, a, b, b_extent) for i in indices):
        return ((b, a_extent * b_extent), *rest[1:]), {**changes, a: ZERO}
    return ((a, a_extent), *rest), changes


def _crossed_in_one_stride(index: sympy.Expr, a: sympy.Symbol, b: sympy.Symbol, extent: sympy.Expr) -> bool:
    free = index.free_symbols
    if a not in free and b not in free:
        return True
    outer, inner = coefficient(index, a), coefficient(index, b)
    return outer is not None and inner is not None and outer == sympy.expand(inner * extent)


def joined(
    outer: Loops, inner: Loops, indices: Sequence[sympy.Expr]
) -> tuple[Loops, dict[sympy.Symbol, sympy.Expr]]:
    """The last two of the `outer` loops as one, its lanes filling registers, and what to substitute; the loops as
    they are where an index inside the `inner` loops would need divisions."""
    if len(outer) < 2 or not inner or not outer[-1][1].is_Integer or hint(outer[-1][1]) >= SHORT:
        return outer, {}
    (a, a_extent), (b, b_extent) = outer[-2:]
    folded = {v for v, _ in inner}
    for index in indices:
        steady = b not in index.free_symbols and folded.isdisjoint(index.free_symbols)
        if not steady and not _crossed_in_one_stride(index, a, b, b_extent):
            return outer, {}
    return (*outer[:-2], (b, a_extent * b_extent)), {a: FloorDiv(b, b_extent), b: FloorMod(b, b_extent)}
