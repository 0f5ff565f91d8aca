"""Index arithmetic on SymPy: flat offsets, and taking them apart again without divisions.

Kernel index expressions are built of integers, symbols, sums, products and the two functions here,
`FloorDiv(a, b)` and `FloorMod(a, b)` (for `a >= 0`, `b > 0`, both integer). Reshapes make divisions;
`divmod_index` removes them wherever the ranges of the loop variables allow.

    >>> i, j = sympy.symbols("i j", integer=True)
    >>> divmod_index(8*i + j, sympy.Integer(8), {i: sympy.Integer(3), j: sympy.Integer(8)})
    (i, j)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import sympy
import sympy.tensor.tensor  # which the first sum of a process would import, in the first call

ZERO, ONE = sympy.Integer(0), sympy.Integer(1)
Ranges = Mapping[sympy.Symbol, sympy.Expr]
TYPICAL_SIZE = 256


class FloorDiv(sympy.Function):
    """`a // b` of integers, `a >= 0` and `b > 0`."""

    is_integer = True
    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        return ZERO if a == 0 else None


class FloorMod(sympy.Function):
    """`a % b` of integers, `a >= 0` and `b > 0`."""

    is_integer = True
    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if b == 1:
            return ZERO
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) % int(b))
        return ZERO if a in (0, b) else None


@functools.lru_cache(maxsize=4096)
def product(dims: tuple[sympy.Expr, ...]) -> sympy.Expr:
    """The number of elements of a shape."""
    return sympy.Mul(*dims) if dims else ONE


@functools.lru_cache(maxsize=4096)
def strides(shape: tuple[sympy.Expr, ...]) -> tuple[sympy.Expr, ...]:
    """Row-major element strides."""
    return tuple(product(shape[k + 1 :]) for k in range(len(shape)))


def distribute(expr: sympy.Expr) -> sympy.Expr:
    """`expr` as a sum of products (flat offsets stay sums, so that terms can be compared)."""
    if expr.is_Mul and any(a.is_Add for a in expr.args):
        return sympy.expand_mul(expr)
    return expr


def flat(at: Sequence[sympy.Expr], shape: tuple[sympy.Expr, ...]) -> sympy.Expr:
    """The row-major offset of position `at` in an array of `shape`."""
    return _flat(tuple(at), shape)


@functools.lru_cache(maxsize=4096)
def _flat(at: tuple[sympy.Expr, ...], shape: tuple[sympy.Expr, ...]) -> sympy.Expr:
    terms = [distribute(i * s) for i, s in zip(at, strides(shape)) if i != 0]
    return rejoin(sympy.Add(*terms))


def rejoin(expr: sympy.Expr) -> sympy.Expr:
    """Puts `b*FloorDiv(a, b) + FloorMod(a, b)` back together as `a` (scaled alike too)."""
    mods = expr.atoms(FloorMod) if expr.has(FloorMod) else ()
    for mod in mods:
        a, b = mod.args
        scale = coefficient(expr, mod)
        div = FloorDiv(a, b)
        if scale is not None and scale != 0 and coefficient(expr, div) == distribute(scale * b):
            expr = sympy.Add(expr, -scale * mod, distribute(-scale * b) * div, distribute(scale * a))
    return expr


def coefficient(expr: sympy.Expr, atom: sympy.Expr) -> sympy.Expr | None:
    """What multiplies `atom` in a sum; 0 where it is absent, None where it is not linear."""
    found = ZERO
    for term in sympy.Add.make_args(expr):
        if term == atom:
            found += 1
        elif term.is_Mul and atom in term.args:
            rest = sympy.Mul(*(a for a in term.args if a != atom))
            if rest.has(atom):
                return None
            found += rest
        elif term.has(atom):
            return None
    return found


def upper(expr: sympy.Expr, ranges: Ranges) -> sympy.Expr | None:
    """The largest value of a sum of non-negative terms, or None where that is not known."""
    total = ZERO
    for term in sympy.Add.make_args(expr):
        bound = _term_upper(term, ranges)
        if bound is None:
            return None
        total += bound
    return total


def _term_upper(term: sympy.Expr, ranges: Ranges) -> sympy.Expr | None:
    bound = ONE
    for factor in sympy.Mul.make_args(term):
        if factor in ranges:
            bound *= ranges[factor] - 1
        elif isinstance(factor, FloorMod):
            bound *= factor.args[1] - 1
        elif isinstance(factor, FloorDiv):
            top = upper(factor.args[0], ranges)
            if top is None:
                return None
            bound *= FloorDiv(sympy.expand(top), factor.args[1])
        elif factor.is_nonnegative:
            bound *= factor
        else:
            return None
    return bound


def below(expr: sympy.Expr, limit: sympy.Expr, ranges: Ranges) -> bool:
    """True where `0 <= expr < limit` is certain."""
    top = upper(expr, ranges)
    if top is None:
        return False
    if top.is_Integer and limit.is_Integer:
        return bool(top < limit)
    return bool(sympy.expand(limit - 1 - top).is_nonnegative)


def divmod_index(expr: sympy.Expr, by: sympy.Expr, ranges: Ranges) -> tuple[sympy.Expr, sympy.Expr]:
    """(expr // by, expr % by) of a non-negative expr, free of divisions where ranges allow."""
    if by == 0:  # an axis of an empty array: no position is ever computed
        return ZERO, ZERO
    if by == 1:
        return expr, ZERO
    shifts = _shifts(by)
    if not shifts:
        return _divided(expr, by, ranges)
    there, back = ({a: sympy.expand(b) for a, b in pairs} for pairs in (
        [(s, short - offset) for s, short, offset in shifts], [(short, s + offset) for s, short, offset in shifts]))
    quotient, rest = _divided(_put(expr, there), _put(by, there), {i: _put(n, there) for i, n in ranges.items()})
    return _put(quotient, back, distribute), _put(rest, back, distribute)


def _divided(expr: sympy.Expr, by: sympy.Expr, ranges: Ranges) -> tuple[sympy.Expr, sympy.Expr]:
    """`divmod_index` by a product of symbols and numbers."""
    whole: list[tuple[sympy.Expr, sympy.Expr]] = []
    rest: list[tuple[sympy.Expr, sympy.Expr]] = []
    for term in sympy.Add.make_args(expr):
        quotient = term / by
        (whole if _is_integral(quotient) else rest).append((term, quotient))
    remainder = sympy.Add(*(t for t, _ in rest))
    quotient = sympy.Add(*(q for _, q in whole))
    if below(remainder, by, ranges):
        return quotient, remainder
    if upper(remainder, ranges) is not None:  # non-negative: the whole multiples may be split off
        return quotient + FloorDiv(remainder, by), FloorMod(remainder, by)
    return FloorDiv(expr, by), FloorMod(expr, by)


@functools.lru_cache(maxsize=4096)
def _shifts(by: sympy.Expr) -> tuple[tuple[sympy.Symbol, sympy.Symbol, sympy.Expr], ...]:
    """The sizes that a divisor holds with an offset, `n - 1`, each with a symbol for the whole of that: products of it
    divide as those of any other size do, where `i*n - i` does not show that it is a multiple of `n - 1`."""
    found: dict[sympy.Symbol, tuple[sympy.Symbol, sympy.Symbol, sympy.Expr]] = {}
    for factor in sympy.Mul.make_args(by):
        whole = factor.as_base_exp()[0].as_content_primitive()[1]
        if whole.is_Add and len(whole.free_symbols) == 1:
            (size,) = whole.free_symbols
            offset = whole - size
            if offset.is_Integer:
                found.setdefault(size, (size, sympy.Symbol(f"{whole}", integer=True, positive=True), offset))
    return tuple(found.values())


def _put(expr: sympy.Expr, by: Mapping[sympy.Expr, sympy.Expr], then: Callable[..., sympy.Expr] = sympy.expand
         ) -> sympy.Expr:
    """`expr` with these put in, as a sum of products."""
    found = expr.xreplace(by)
    return expr if found is expr else sympy.Add(*map(then, sympy.Add.make_args(found)))


def _is_integral(expr: sympy.Expr) -> bool:
    """No denominators: every factor an integer or a non-negative power."""
    for factor in sympy.Mul.make_args(expr):
        if factor.is_Number and not factor.is_Integer:
            return False
        if factor.is_Pow and factor.exp.is_negative:
            return False
    return True


def unflatten(offset: sympy.Expr, shape: Sequence[sympy.Expr], ranges: Ranges) -> tuple[sympy.Expr, ...]:
    """The position of flat `offset` in `shape` (the inverse of `flat`)."""
    at: list[sympy.Expr] = []
    for k in range(len(shape) - 1, 0, -1):
        offset, digit = divmod_index(offset, shape[k], ranges)
        at.append(digit)
    return (*((offset,) if shape else ()), *reversed(at))


def reshape_at(
    at: Sequence[sympy.Expr], to: tuple[sympy.Expr, ...], of: tuple[sympy.Expr, ...], ranges: Ranges
) -> tuple[sympy.Expr, ...]:
    """Where position `at` of an array reshaped from `of` to `to` lies in the array before.

    Works block by block: dimensions that multiply to the same count pass through untouched.
    """
    out: list[sympy.Expr] = []
    for (a0, a1), (b0, b1) in reshape_blocks(of, to):
        inside = of[a0:a1]
        if a1 - a0 == 1 and b1 - b0 == 1:
            out.append(at[b0])
        else:
            out += unflatten(flat(at[b0:b1], to[b0:b1]), inside, ranges)
    return tuple(out)


@functools.lru_cache(maxsize=4096)
def reshape_blocks(
    of: tuple[sympy.Expr, ...],
    to: tuple[sympy.Expr, ...],
) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """The smallest runs of dimensions of both shapes with equal products: ((a0, a1), (b0, b1))."""
    blocks, a, b, a0, b0 = [], 0, 0, 0, 0
    left, right = ONE, ONE
    while a < len(of) or b < len(to):
        if b >= len(to) or (a < len(of) and _grow_left(left, right, a == a0, b == b0)):
            left, a = left * of[a], a + 1
        else:
            right, b = right * to[b], b + 1
        if left == right and (a > a0 or b > b0) and not (a == a0 or b == b0):
            blocks.append(((a0, a), (b0, b)))
            a0, b0, left, right = a, b, ONE, ONE
    if blocks and (a0 < a or b0 < b):
        (p0, _), (q0, _) = blocks.pop()
        blocks.append(((p0, a), (q0, b)))
    elif a0 < a or b0 < b:
        blocks.append(((a0, a), (b0, b)))
    return tuple(blocks)


def _grow_left(left: sympy.Expr, right: sympy.Expr, left_empty: bool, right_empty: bool) -> bool:
    """Which side of a block to extend: the smaller product; unknown ratios extend the emptier."""
    if left_empty or right_empty:
        return left_empty
    ratio = left / right
    if ratio.is_Integer or ratio.is_Rational:
        return bool(ratio < 1)
    return not _is_integral(ratio)


def hint(expr: sympy.Expr, sizes: Mapping[str, int] | None = None) -> int:
    """A plausible value for heuristics: sizes as `sizes` says by name, else as a typical one, loop variables as 0."""
    if expr.is_Integer:
        return int(expr)
    known = sizes or {}
    return int(expr.subs({s: known.get(s.name, TYPICAL_SIZE) if s.is_positive else 0 for s in expr.free_symbols}))


def total(dims: Iterable[sympy.Expr], sizes: Mapping[str, int] | None = None) -> int:
    """The plausible number of elements of some dimensions."""
    return hint(product(tuple(dims)), sizes)
