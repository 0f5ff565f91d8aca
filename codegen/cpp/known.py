"""What is known where code stands, and the conditions that it decides.

    ranges   where the loop variables are: `j` from 16 to 239
    truths   conditions that were tested on the way: in `t ? a : b`, t holds in `a` and not in `b`
    lets     the conditions that names stand for

    reduced(and(t, lt(j, 240)))     t, for that j

A vector loop whose conditions ask where its lanes are (padding, pieces that are joined, a grid that is rolled) is cut
where their answers change (`sections`): there, no lane asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import sympy

from dynacomp.codegen.cpp.index import names_in, step_along
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index, Ref

COMPARISONS = {"lt": (0, False), "ge": (0, True), "le": (1, False), "gt": (1, True)}
"""left - right < limit, or not so."""
BOOL = np.dtype(bool)
Bounds = tuple[float, float]
ANYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True)
class Known:
    """See the module's docstring. What has no range may be anything."""

    ranges: Mapping[str, Bounds] = field(default_factory=dict)
    truths: Mapping[Expr, bool] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)

    def within(self, name: str, first: float, last: float) -> Known:
        low, high = self.ranges.get(name, ANYWHERE)
        return replace(self, ranges={**self.ranges, name: (max(low, first), min(high, last))})

    def naming(self, name: str, condition: Expr) -> Known:
        return replace(self, lets={**self.lets, name: condition})

    def named(self, condition: Expr) -> Expr:
        """What a name stands for, where that is known."""
        match condition:
            case Ref(name):
                return self.lets.get(name, condition)
        return condition

    def assuming(self, condition: Expr, value: bool) -> Known:
        """Where a condition was tested."""
        known = replace(self, truths={**self.truths, condition: value})
        match condition:
            case Ref(name) if name in self.lets:
                return known.assuming(self.lets[name], value)
            case Apply("and" | "or" as fn, parts) if value == (fn == "and"):
                for part in parts:
                    known = known.assuming(part, value)
            case Apply("not", (part,)):
                return known.assuming(part, not value)
            case Apply(fn, _) as compared if fn in COMPARISONS and (apart := difference(compared)) is not None:
                return _narrowed(known, apart, COMPARISONS[fn][0], value != COMPARISONS[fn][1])
        return known


def _narrowed(known: Known, apart: sympy.Expr, limit: int, below_limit: bool) -> Known:
    """Where `apart < limit`, or not so: of a variable and a number."""
    if len(names_in(apart)) != 1:
        return known
    (name,) = names_in(apart)
    step = step_along(apart, name)
    if step not in (1, -1):
        return known
    rest = sum(int(t) for t in sympy.Add.make_args(apart) if t.is_Integer)
    first, last = (-math.inf, limit - 1 - rest) if below_limit else (limit - rest, math.inf)
    return known.within(name, first, last) if step == 1 else known.within(name, -last, -first)


# ---- conditions -------------------------------------------------------------------------------


def reduced(condition: Expr, known: Known) -> Expr:
    """The condition, less what is known of it: perhaps a Const."""
    if condition in known.truths:
        return _truth(known.truths[condition])
    match condition:
        case Ref(name) if name in known.lets:
            value = known.lets[name]
            found = reduced(value, known)
            return condition if found == value else found
        case Apply("and" | "or" as fn, (left, right)):
            return _joined(fn, reduced(left, known), reduced(right, known), condition)
        case Apply("not", (part,)):
            found = reduced(part, known)
            return condition if found.truth is None else _truth(not found.truth)
        case Apply(fn, _) as compared if fn in COMPARISONS and (apart := difference(compared)) is not None:
            limit, opposite = COMPARISONS[fn]
            low, high = bounds(apart, known)
            if high < limit or low >= limit:
                return _truth((high < limit) != opposite)
    return condition


def _truth(value: bool) -> Const:
    return Const(value, BOOL)


def _joined(fn: str, left: Expr, right: Expr, whole: Expr) -> Expr:
    neutral = fn == "and"
    for one, other in ((left, right), (right, left)):
        if one.truth is not None:
            return other if one.truth == neutral else one
    return whole if whole.children == (left, right) else Apply(fn, (left, right), whole.dtype)


def parted(condition: Expr, moves: Callable[[Expr], bool], known: Known) -> tuple[Expr | None, Expr | None]:
    """The parts of a conjunction that stay, and those that move; None is true."""
    if not moves(condition):
        return condition, None
    match known.named(condition):
        case Apply("and", parts):
            stay, move = zip(*(parted(part, moves, known) for part in parts))
            return _all(stay), _all(move) if any(s is not None for s in stay) else condition
    return None, condition


def _all(parts: Iterable[Expr | None]) -> Expr | None:
    found = [p for p in parts if p is not None]
    return reduce(lambda a, b: Apply("and", (a, b), BOOL), found) if found else None


def difference(condition: Apply) -> sympy.Expr | None:
    """left - right of a comparison of positions."""
    left, right = map(_position, condition.args)
    return None if left is None or right is None else sympy.expand(left - right)


def _position(expr: Expr) -> sympy.Expr | None:
    match expr:
        case Index(position, dtype) if dtype.kind == "i" and dtype.itemsize >= 4:
            return position
        case Const(value, dtype) if dtype.kind == "i":
            return sympy.Integer(int(value))
    return None


def bounds(expr: sympy.Expr, known: Known) -> Bounds:
    """The least and the largest that an index expression may be."""
    low = high = 0.0
    for term in sympy.Add.make_args(expr):
        factor, symbol = term.as_coeff_Mul()
        if symbol == 1:
            low, high = low + int(factor), high + int(factor)
            continue
        first, last = known.ranges.get(symbol.name, ANYWHERE) if symbol.is_Symbol else ANYWHERE
        ends = sorted((float(factor) * first, float(factor) * last))
        low, high = low + ends[0], high + ends[1]
    return low, high
