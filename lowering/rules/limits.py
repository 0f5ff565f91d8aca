"""Between which numbers a whole-numbered expression lies, and what that spares.

    lt(min(255, max(0, x)), 0)           False
    min(max(min(255, max(0, x)), 0), 255)    min(255, max(0, x))

A position is clipped by the program, wrapped by NumPy's rule for negative ones and clamped by JAX: once is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index
from dynacomp.lowering.sizes.indexing import upper

Limits = tuple[int, int]
Found = MutableMapping[int, tuple[Expr, Limits]]
Ranges = Mapping[sympy.Symbol, sympy.Expr]
DECIDED = {"lt": lambda a, b: _order(a[1] < b[0], a[0] >= b[1]), "le": lambda a, b: _order(a[1] <= b[0], a[0] > b[1]),
           "gt": lambda a, b: _order(a[0] > b[1], a[1] <= b[0]), "ge": lambda a, b: _order(a[0] >= b[1], a[1] < b[0])}


def _order(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def decided(fn: str, left: Expr, right: Expr, ranges: Ranges, found: Found) -> bool | None:
    """What a comparison of whole numbers gives, where it always gives the same."""
    return DECIDED[fn](limits(left, ranges, found), limits(right, ranges, found))


def chosen(fn: str, left: Expr, right: Expr, ranges: Ranges, found: Found) -> Expr | None:
    """Which of two whole numbers is always their min, or their max."""
    a, b = limits(left, ranges, found), limits(right, ranges, found)
    if fn == "max":
        a, b = b, a
    return left if a[1] <= b[0] else right if b[1] <= a[0] else None


def limits(expr: Expr, ranges: Ranges, found: Found) -> Limits:
    """(least, largest) of a whole-numbered expression; `found` remembers them, and keeps the expressions alive."""
    if id(expr) not in found:
        found[id(expr)] = expr, _limits(expr, ranges, found)
    return found[id(expr)][1]


def _limits(expr: Expr, ranges: Ranges, found: Found) -> Limits:
    info = np.iinfo(expr.dtype)
    whole = (int(info.min), int(info.max))
    match expr:
        case Const(value):
            return int(value), int(value)
        case Index(position):
            top = upper(position, ranges)
            return (0, int(top)) if top is not None and top.is_Integer and top <= whole[1] else whole
        case Apply("min" | "max" as fn, (left, right)):
            (a, b), (c, d) = limits(left, ranges, found), limits(right, ranges, found)
            return (min(a, c), min(b, d)) if fn == "min" else (max(a, c), max(b, d))
        case Apply("select", (_, left, right)):
            (a, b), (c, d) = limits(left, ranges, found), limits(right, ranges, found)
            return min(a, c), max(b, d)
        case Apply("convert", (inner,)) if inner.dtype.kind in "iu":
            a, b = limits(inner, ranges, found)
            return (a, b) if whole[0] <= a and b <= whole[1] else whole
    return whole
