"""Neighbouring loops become one wherever no index expression tells them apart.

before:  for i < n: for j < 32: out[32*i + j] = x[32*i + j]
after:   for j < 32*n: out[j] = x[j]
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from dynacomp.lowering.indexing import ZERO, coefficient


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
