"""Sizes: expressions of symbolic ints.

A `Size` is a polynomial over atoms: a symbol, a floor division of two sizes (a remainder is `a - b * (a // b)`), or the
larger or the smaller of two. JAX takes it as a dimension (it asks for `dimension_as_value`, nothing else), so that
arrays of unknown sizes are traced with the very objects that guards evaluate. Symbols belong to a `Scope` (see
`size_scope`), which knows their values in the call at hand and decides comparisons that algebra and bounds leave open.

    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> scope = Scope()
    >>> n, m = scope.symbol("n", 8), scope.symbol("m", 5)
    >>> (2 * n + 4) // 2 - n, n * n // n, (n + 1) % 4
    (2, n, n - 4*floordiv(n + 1, 4) + 1)
    >>> extreme("min", n, 6) * 2, extreme("max", n + 1, n)
    (2*min(n, 6), n + 1)
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, TypeAlias, TypeGuard

import numpy as np
from jax import lax
from jax._src import core, dtypes
from jax._src.export.shape_poly import dim_as_value_p
from jax.errors import InconclusiveDimensionOperation

from dynacomp.capture.graph.size_lookups import is_asked_kind, is_static_argument
from dynacomp.capture.graph.size_orders import answered, equal, is_array, ordered

Expr: TypeAlias = Any  # a Size or an int
Monomial = tuple[tuple["Atom", int], ...]  # atoms with their powers; () for the constant
FLOORDIV, SYMBOL = "floordiv", "size"
EXTREMES: dict[str, Callable[[Any, Any], Any]] = {"max": max, "min": min}
INFINITE = math.inf
LARGEST = 2.0 ** 63


@dataclass(frozen=True, eq=False)
class Atom:
    """A symbol, what division leaves of two sizes, or the larger or smaller of two. One object in its Scope; `index` is
    its place there."""

    op: str
    args: tuple[Any, ...]
    index: int

    def __str__(self) -> str:
        return self.args[0] if self.op == SYMBOL else f"{self.op}({', '.join(map(str, self.args))})"


class Size:
    """A symbolic int: `terms` are monomials with their coefficients, in the order of their atoms.

    It takes part in Python's arithmetic with ints and Sizes of its Scope; with anything else it is the weakly typed
    array that JAX makes of an int. Comparisons follow the Scope's rules. Never a constant: those are ints."""

    __slots__ = ("terms", "scope", "_hash")
    __array_priority__ = 1000  # NumPy leaves operators to us, as to JAX's tracers
    __ge__: ClassVar[Callable[[Any, Any], Any]]  # see `_ordering`
    __gt__: ClassVar[Callable[[Any, Any], Any]]
    __le__: ClassVar[Callable[[Any, Any], Any]]
    __lt__: ClassVar[Callable[[Any, Any], Any]]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: Any) -> None:
        self.terms, self.scope = terms, scope
        self._hash = hash((terms, id(scope)))

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """What `isinstance` asks where an object is not of the class itself: for all but JAX a size is an int."""
        return int if self.scope.deciding and is_asked_kind(sys._getframe(1)) else Size

    def __hash__(self) -> int:
        if self.scope.deciding:
            self.scope.is_hashed(sys._getframe(1))
        return self._hash

    def __eq__(self, other: Any) -> Any:
        if type(other) is Size or _is_int(other):
            return self._is_equal(other, sys._getframe(1))
        asking = sys._getframe(1)
        return equal(self, other, lambda whole: self._is_equal(whole, asking))

    def __ne__(self, other: Any) -> Any:
        if type(other) is Size or _is_int(other):
            return not self._is_equal(other, sys._getframe(1))
        if is_array(other):  # with an answer for each element
            return self.__jax_array__() != other
        asking = sys._getframe(1)
        found = equal(self, other, lambda whole: self._is_equal(whole, asking))
        return found if found is NotImplemented else answered(other, not found)

    def _is_equal(self, other: Expr, asking: FrameType) -> bool:
        unknown = type(other) is Size
        if unknown and self.scope is not other.scope:
            return False
        if unknown and self.terms == other.terms:
            return True
        if is_static_argument(asking):  # JAX keeps what it traces for longer than that holds
            return False
        difference = canonical(self - other)
        if type(difference) is int:
            return difference == 0
        return bool(self.scope.deciding) and self.scope.is_asked_equal(difference, asking, unknown)

    def __bool__(self) -> bool:
        return not self.scope.is_zero(self)

    def __neg__(self) -> Expr:
        return _sum(self.scope, (self, -1))

    def __pos__(self) -> Size:
        return self

    conjugate = __pos__
    real = numerator = property(__pos__)
    denominator, imag = 1, 0

    def __abs__(self) -> Expr:
        return self if self >= 0 else -self

    def __pow__(self, power: Any) -> Any:
        if not _is_int(power) or power < 0:
            return self.__jax_array__() ** power
        return functools.reduce(operator.mul, [self] * int(power), 1)

    def __rpow__(self, base: Any) -> Any:
        return base ** self.__jax_array__()

    def __truediv__(self, other: Any) -> Any:
        return self.__jax_array__() / (other.__jax_array__() if type(other) is Size else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__jax_array__()

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(f"the symbolic size {self} is used where a constant is needed")

    __float__ = __int__

    def __index__(self) -> int:
        """A Size is no index. JAX asks for each size of a shape, and keeps the error in the frame that has caught it: a
        cycle, which would hold the frames of all callers, the program's and what they were given too. So there is one
        error, of which `forget_errors` lets go."""
        raise _NO_INDEX.with_traceback(None)

    def _as_float(self) -> Any:
        """As NumPy's functions make floats of ints, of 64 bits: in JAX's form."""
        return lax.convert_element_type(self.__jax_array__(), dtypes.canonicalize_dtype(np.float64))

    def astype(self, dtype: Any) -> Any:
        """`np.max(shape).astype(dtype)`, in code of libraries."""
        return lax.convert_element_type(self.__jax_array__(), dtype)

    def sqrt(self) -> Any:
        """`np.sqrt(size)`, in code of libraries."""
        return lax.sqrt(self._as_float())

    def log(self) -> Any:
        """`np.log(size)`, in code of libraries."""
        return lax.log(self._as_float())

    def log2(self) -> Any:
        """`np.log2(size)`, in code of libraries."""
        return Log2(self)

    def bit_length(self) -> int:
        return 0 if self == 0 else Log2(abs(self)).floor() + 1

    def __str__(self) -> str:
        self.scope.is_written(sys._getframe(1))
        return text_of(self)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        self.scope.is_written(sys._getframe(1))
        return format(text_of(self), spec)

    def max(self, other: Expr) -> Expr:
        return self if self._is_larger(other) else other

    def min(self, other: Expr) -> Expr:
        return other if self._is_larger(other) else self

    def _is_larger(self, other: Expr) -> bool:
        """Whether `self` serves as the larger of the two, `other` as the smaller; either does where they are equal, so
        that what is asked holds then, too. Where they may be equal and are known not to be in the other order, this
        one does not."""
        difference = canonical(self - other)
        if type(difference) is not Size:
            return difference >= 0
        known = self.scope.known_sign(difference)
        if known is not None:
            return known
        return not -difference >= 0 if self.scope.value(difference) <= 0 else difference >= 0

    rmax, rmin = max, min

    def dimension_as_value(self) -> Any:
        """The size as an array of JAX. OverflowError where no array holds it, as for Python's ints."""
        limit = np.iinfo(core.dim_value_dtype())
        now = canonical(self)
        if type(now) is int:
            return now
        if not (now <= int(limit.max) and now >= int(limit.min)):
            raise OverflowError(f"Python int {self.scope.value(self)} too large to convert to {limit.dtype.name}")
        return dim_as_value_p.bind(dim=now)

    __jax_array__ = dimension_as_value

    def __deepcopy__(self, memo: Any) -> Size:
        return self


class Log2:
    """The binary logarithm of a Size, which libraries round: to how often a loop halves something. What it is rounded
    to is decided by the size at hand, and serves all sizes that have the same.

        int(np.ceil(np.log2(n + 1)))    # 4 of n = 8; a Relation says that n is from 8 to 15
    """

    def __init__(self, size: Size) -> None:
        self.size = size

    def floor(self) -> int:
        found = self._now().bit_length() - 1
        if not (self.size >= 2 ** found and self.size < 2 ** (found + 1)):
            raise self._unknown()
        return found

    def ceil(self) -> int:
        found = (self._now() - 1).bit_length()
        if not (self.size <= 2 ** found and (found == 0 or self.size > 2 ** (found - 1))):
            raise self._unknown()
        return found

    __ceil__, __floor__, __int__, __trunc__ = ceil, floor, floor, floor

    def _now(self) -> int:
        value = self.size.scope.value(self.size)
        if value is None or value < 1:
            raise self._unknown()
        return value

    def _unknown(self) -> InconclusiveDimensionOperation:
        return InconclusiveDimensionOperation(f"the logarithm of the symbolic size {self.size} is needed")


_NO_INDEX = TypeError("a symbolic size is used where a constant is needed")


def forget_errors() -> None:
    """Lets go of the frames that have asked a Size for an index."""
    _NO_INDEX.__traceback__ = _NO_INDEX.__context__ = None


def _is_int(x: Any) -> bool:
    """Whether `x` is a concrete integer: Python's or NumPy's."""
    return isinstance(x, (int, np.integer))


def _arithmetic(name: str, compute: Callable[[Any, Expr, Expr], Any]) -> None:
    """Gives Size the operator `name` and its reflection."""
    of_arrays = getattr(operator, name)

    def forward(self: Size, other: Any) -> Any:
        if type(other) is Size or _is_int(other):
            return compute(self.scope, canonical(self), canonical(other) if type(other) is Size else int(other))
        return of_arrays(self.__jax_array__(), other)

    def reflected(self: Size, other: Any) -> Any:
        now = canonical(self)
        return compute(self.scope, int(other), now) if _is_int(other) else of_arrays(other, self.__jax_array__())

    setattr(Size, f"__{name}__", forward)
    setattr(Size, f"__r{name}__", reflected)


def _ordering(name: str, difference: Callable[[Size, Expr], Expr]) -> None:
    """Gives Size the comparison `name`, which holds where the difference is not negative."""

    def compare(self: Size, other: Any) -> Any:
        if type(other) is Size or _is_int(other):
            return self.scope.is_nonnegative(difference(self, other))
        return ordered(name, self, other)

    setattr(Size, f"__{name}__", compare)


def _sum(scope: Any, *scaled: tuple[Expr, int]) -> Expr:
    """The sum of expressions, each times a number."""
    found: dict[Monomial, int] = {}
    for expr, by in scaled:
        for mono, k in terms_of(expr):
            found[mono] = found.get(mono, 0) + k * by
    return _made(scope, found)


def _product(scope: Any, a: Expr, b: Expr) -> Expr:
    found: dict[Monomial, int] = {}
    for left, k in terms_of(a):
        for right, j in terms_of(b):
            mono = _times(left, right)
            found[mono] = found.get(mono, 0) + k * j
    return _made(scope, found)


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].index))


def _made(scope: Any, found: dict[Monomial, int]) -> Expr:
    """The expression of these terms; an int where it is constant."""
    kept = {mono: k for mono, k in found.items() if k}
    if not kept.keys() - {()}:
        return kept.get((), 0)
    return Size(tuple(sorted(kept.items(), key=lambda item: _order(item[0]))), scope)


def _order(mono: Monomial) -> tuple[Any, ...]:
    return (sum(power for _, power in mono), *((atom.index, power) for atom, power in mono))


def terms_of(expr: Expr) -> tuple[tuple[Monomial, int], ...]:
    """The terms of a Size, or of an int."""
    return expr.terms if type(expr) is Size else (((), expr),) if expr else ()


def _floordiv(scope: Any, a: Expr, b: Expr) -> Expr:
    b = canonical(b)
    if type(b) is Size and b.terms[-1][1] < 0 and bounds(b)[0] < 1:  # `5 + i % 4` is positive, whatever comes last
        return _floordiv(scope, _sum(scope, (a, -1)), _sum(scope, (b, -1)))
    if type(b) is Size:
        return _quotient(scope, canonical(a), b)
    if b == 0:
        return scope.value(a) // 0  # Python's own exception
    if b < 0:
        return _floordiv(scope, _sum(scope, (a, -1)), -b)
    whole, rest = _split(scope, canonical(a), b)
    return _sum(scope, (whole, 1), (_divided(scope, rest, b), 1))


def _mod(scope: Any, a: Expr, b: Expr) -> Expr:
    if type(b) is int and b == 0:
        return scope.value(a) % 0
    return _sum(scope, (a, 1), (_product(scope, _floordiv(scope, a, b), b), -1))


def _split(scope: Any, a: Expr, b: int) -> tuple[Expr, Expr]:
    """(q, r) with a == q * b + r, and in r what does not divide."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, k in terms_of(a):
        whole[mono] = k // b if k % b == 0 or not mono else 0
        rest[mono] = k - whole[mono] * b
    return _made(scope, whole), _made(scope, rest)


def _divided(scope: Any, a: Expr, b: int) -> Expr:
    """`a // b` of what does not divide evenly."""
    low, high = bounds(a)
    if 0 <= low and high < b:
        return 0
    if type(a) is int:
        return a // b
    if a.terms[-1][1] < 0:  # rounded up instead: numerators are positive where that can be
        return _rounded_up(scope, a, b)
    inner = _only_atom(a)
    if inner and inner.op == FLOORDIV and type(inner.args[1]) is int and inner.args[1] > 0:
        return scope_atom(scope, inner.args[0], inner.args[1] * b)
    return scope_atom(scope, a, b)


def _rounded_up(scope: Any, a: Expr, b: Expr) -> Expr:
    """`a // b` by way of `-a`, rounded up, for a positive `b`."""
    return _sum(scope, (_floordiv(scope, _sum(scope, (a, -1), (b, 1), (1, -1)), b), -1))


def _only_atom(expr: Expr) -> Atom | None:
    """The atom that an expression is."""
    terms = terms_of(expr)
    one = len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1 and terms[0][0][0][1] == 1
    return terms[0][0][0][0] if one else None


def scope_atom(scope: Any, a: Expr, b: Expr) -> Size:
    return single(scope, scope.atom(FLOORDIV, a, b))


def single(scope: Any, atom: Atom) -> Size:
    """The expression that is one atom."""
    return Size(((((atom, 1),), 1),), scope)


def _quotient(scope: Any, a: Expr, b: Size) -> Expr:
    """`a // b` by a divisor that is not zero: polynomial division where that is exact."""
    if scope.is_zero(b):
        return scope.value(a) // 0
    (lead, by), quotient, left = b.terms[-1], 0, a
    while left != 0:
        mono, k = terms_of(left)[-1]
        ratio = _over(mono, lead)
        if ratio is None or k % by:
            up = terms_of(a)[-1][1] < 0 < by and bounds(b)[0] >= 1
            return _rounded_up(scope, a, b) if up else scope_atom(scope, a, b)
        step = _made(scope, {ratio: k // by})
        quotient = _sum(scope, (quotient, 1), (step, 1))
        left = _sum(scope, (left, 1), (_product(scope, step, b), -1))
    return quotient


def _over(mono: Monomial, by: Monomial) -> Monomial | None:
    """The quotient of two monomials; None where one does not divide the other."""
    powers = dict(mono)
    for atom, power in by:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple((atom, power) for atom, power in powers.items() if power)


def extreme(op: str, a: Expr, b: Expr) -> Expr:
    """The larger ("max") or the smaller ("min") of two expressions: one of them where bounds, or what was decided
    before, tell which; the sizes at hand are not asked."""
    difference = canonical(a - b)
    larger = difference >= 0 if type(difference) is int else difference.scope.known_sign(difference)
    if larger is not None:
        return a if larger == (op == "max") else b
    scope = difference.scope
    return single(scope, scope.atom(op, b, a) if (op, (b, a)) in scope.atoms else scope.atom(op, a, b))


_arithmetic("add", lambda scope, a, b: _sum(scope, (a, 1), (b, 1)))
_arithmetic("sub", lambda scope, a, b: _sum(scope, (a, 1), (b, -1)))
_arithmetic("mul", _product)
_arithmetic("floordiv", _floordiv)
_arithmetic("mod", _mod)
_ordering("ge", lambda a, b: a - b)
_ordering("gt", lambda a, b: a - b - 1)
_ordering("le", lambda a, b: b - a)
_ordering("lt", lambda a, b: b - a - 1)
Size.__divmod__ = lambda self, other: (self // other, self % other)  # type: ignore
Size.__rdivmod__ = lambda self, other: (other // self, other % self)  # type: ignore


# --- what is known of an expression


def names(expr: Expr) -> frozenset[str]:
    """The symbols of an expression."""
    return frozenset(atom.args[0] for atom in atoms(expr) if atom.op == SYMBOL) if type(expr) is Size else frozenset()


def bounds(expr: Expr) -> tuple[float, float]:
    """The least and the greatest value, over all sizes that the entry serves. What is made of sizes fits into 64 bits,
    where guards compute it, before a number is added."""
    if type(expr) is not Size:
        return expr, expr
    low, high = _bounds_by_terms(expr)
    undivided, less, more = _undivided(expr)
    if undivided is expr:
        return low, high
    least, most = bounds(undivided)
    return max(low, least - less), min(high, most + more)


def _undivided(expr: Size) -> tuple[Expr, int, int]:
    """`expr` with `a` in place of each `k * (a // k)`, which is less than `a` by 0 to k - 1; by how much it may be less
    than that, or more. `n - 4 * (n // 4)` is 0, or up to 3 more."""
    found: Expr = expr
    less = more = 0
    for mono, k in expr.terms:
        atom, power = mono[0] if len(mono) == 1 else (None, 0)
        if atom is None or atom.op != FLOORDIV or power != 1 or type(atom.args[1]) is not int or k % atom.args[1]:
            continue
        by, quotient = atom.args[1], single(expr.scope, atom)
        times = k // by
        found = found - k * quotient + times * atom.args[0]  # type: ignore[operator]
        less, more = less + max(0, times) * (by - 1), more + max(0, -times) * (by - 1)
    return found, less, more


def _bounds_by_terms(expr: Size) -> tuple[float, float]:
    low = high = more = 0.0
    for mono, k in expr.terms:
        if not mono:
            more = k
            continue
        least, most = _bounds_of(expr.scope, mono)
        low, high = low + min(_scaled(k, least), _scaled(k, most)), high + max(_scaled(k, least), _scaled(k, most))
    return max(low, -LARGEST) + more, min(high, LARGEST) + more


def _scaled(k: int, bound: float) -> float:
    return k * bound if bound else 0.0


def _bounds_of(scope: Any, mono: Monomial) -> tuple[float, float]:
    low = high = 1.0
    for atom, power in mono:
        least, most = _bounds_of_atom(scope, atom)
        if least < 0:
            return (least, most) if power == len(mono) == 1 else (-INFINITE, INFINITE)
        low, high = low * least ** power, (high * most ** power if most else 0.0)
    return low, high


def _bounds_of_atom(scope: Any, atom: Atom) -> tuple[float, float]:
    if atom.op == SYMBOL:
        name = atom.args[0]
        return scope.least[name], scope.most.get(name, INFINITE)
    (low, high), (least, most) = bounds(atom.args[0]), bounds(atom.args[1])
    if atom.op in EXTREMES:
        return EXTREMES[atom.op](low, least), EXTREMES[atom.op](high, most)
    if least < 1:
        return -INFINITE, INFINITE
    return (low // most if low > 0 and most != INFINITE else 0 if low >= 0 else
            -INFINITE if low == -INFINITE else low // least, INFINITE if high == INFINITE else high // least)


def is_symbolic(number: Any) -> TypeGuard[Size]:
    """Whether a dimension, or another int, is known by an expression alone."""
    return type(number) is Size


def canonical(expr: Any) -> Any:
    """`expr` with what its atoms were found equal to in their place."""
    if type(expr) is not Size or not expr.scope.equal:
        return expr
    known = expr.scope.known
    found = known.get(expr.terms)
    if found is None and not any(atom in expr.scope.equal for atom in atoms(expr)):
        found = known[expr.terms] = expr
    if found is None:
        found = _replaced(expr)
        known[expr.terms] = found = expr if type(found) is Size and found.terms == expr.terms else canonical(found)
    return found


def _replaced(expr: Size) -> Expr:
    """`expr` with its atoms replaced once."""
    total: Expr = 0
    for mono, k in expr.terms:
        part: Expr = k
        for atom, power in mono:
            part = part * _replaced_atom(expr.scope, atom) ** power
        total = total + part
    return total


def _replaced_atom(scope: Any, atom: Atom) -> Expr:
    if atom in scope.equal:
        return scope.equal[atom]
    if atom.op == SYMBOL:
        return single(scope, atom)
    a, b = map(canonical, atom.args)
    return a // b if atom.op == FLOORDIV else extreme(atom.op, a, b)


def atoms(expr: Expr) -> Iterator[Atom]:
    """Every atom of an expression, those inside of others too."""
    for mono, _ in terms_of(expr):
        for atom, _ in mono:
            yield atom
            if atom.op != SYMBOL:
                yield from (inner for part in atom.args for inner in atoms(part))


# --- printing


def text_of(size: Size) -> str:
    """The expression."""
    text = " ".join(f"{'-' if k < 0 else '+'} {_term(mono, abs(k))}" for mono, k in _shown(size.terms))
    return text.removeprefix("+ ").replace("- ", "-", 1) if text.startswith("- ") else text.removeprefix("+ ")


def _shown(terms: Any) -> Any:
    """Greatest powers first, the constant last."""
    return sorted(terms, key=lambda item: (-sum(p for _, p in item[0]), [a.index for a, _ in item[0]]))


def _term(mono: Monomial, k: int) -> str:
    parts = [str(atom) if power == 1 else f"{atom}^{power}" for atom, power in mono]
    return "*".join([str(k), *parts] if k != 1 or not parts else parts)


# --- JAX takes Sizes where it takes its own symbolic dimensions


def register_with_jax() -> None:
    """Makes JAX take a Size for a number of Python's, wherever it takes its own dimensions for one."""
    core.pytype_aval_mappings[Size] = lambda size: core.dim_value_aval()
    dtypes.register_weak_scalar_type(Size)
    dtypes.python_scalar_types.add(Size)
    dtypes.python_scalar_types_to_dtypes[Size] = dtypes.python_scalar_types_to_dtypes[int]
    dtypes.register_canonicalize_value_handler(Size, None)


register_with_jax()
