"""Sizes at run time: reading them off arguments, and evaluating SymPy expressions of them.

Sizes are Python ints, or JAX's symbolic dimensions while something is exported; both go through the
same integer operators, so one table serves.

    >>> from dynacomp.lowering.sizes.symbols import size
    >>> n = size("n")
    >>> bind_sizes([(n, 2 * n)], [(3, 6)])
    {n: 3}
    >>> substitute(sympy.floor(n / 2) + 1, {n: 5})
    3
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy
from jax import core

from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod

Shape = Sequence[Any]


def bind_sizes(declared: Sequence[Shape], actual: Sequence[Shape]) -> dict[sympy.Symbol, Any]:
    """The value of every size symbol that stands alone as a dimension of `declared`.

    Raises ValueError, naming input and dimension, where `actual` disagrees with `declared`.
    """
    sizes: dict[sympy.Symbol, Any] = {}
    for shape, found in zip(declared, actual, strict=True):
        sizes.update({d: a for d, a in reversed(list(zip(shape, found))) if isinstance(d, sympy.Symbol)})
    for position, (shape, found) in enumerate(zip(declared, actual)):
        _check(position, shape, found, sizes)
    return sizes


def _check(position: int, shape: Shape, found: Shape, sizes: Mapping[sympy.Symbol, Any]) -> None:
    expected = tuple(substitute(d, sizes) for d in shape)
    if len(expected) != len(found) or any(e != f for e, f in zip(expected, found)):
        raise ValueError(
            f"input {position} has shape {tuple(found)}, but this program was compiled for "
            f"{tuple(shape)}, here {expected}"
        )


def substitute(expr: Any, sizes: Mapping[sympy.Symbol, Any]) -> Any:
    """The value of an int or SymPy expression of sizes: an int, or a JAX symbolic dimension.

    Raises KeyError for a symbol without a value, TypeError for an operation not in the table.
    """
    if not isinstance(expr, sympy.Basic):
        return expr
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return sizes[expr]
    if isinstance(expr, sympy.floor):
        return _floor(expr.args[0], sizes)
    if isinstance(expr, sympy.ceiling):
        return -_floor(-expr.args[0], sizes)
    if type(expr) not in _OPERATORS:
        raise TypeError(f"a size cannot be computed from {type(expr).__name__}: {expr}")
    return _OPERATORS[type(expr)](*(substitute(a, sizes) for a in expr.args))


def _floor(expr: sympy.Expr, sizes: Mapping[sympy.Symbol, Any]) -> Any:
    numerator, denominator = sympy.fraction(sympy.together(expr))
    return substitute(numerator, sizes) // substitute(denominator, sizes)


def _fold(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *args: reduce(op, args)


_OPERATORS: dict[type, Callable[..., Any]] = {
    sympy.Add: _fold(operator.add),
    sympy.Mul: _fold(operator.mul),
    sympy.Pow: operator.pow,
    sympy.Mod: operator.mod,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    sympy.Max: _fold(core.max_dim),
    sympy.Min: _fold(core.min_dim),
}


def free_in(shape: Sequence[Any]) -> set[Any]:
    """The symbols in a shape."""
    return set().union(*(getattr(dim, "free_symbols", ()) for dim in shape))


def open_sizes(shape: Sequence[Any]) -> int:
    """How many sizes of a shape are symbolic."""
    return sum(bool(getattr(dim, "free_symbols", ())) for dim in shape)


def shaped(x: Any, shape: Sequence[Any], sizes: Mapping[Any, int]) -> Any:
    """`x` in a shape of as many elements: one symbolic size is found by itself, several are computed from `sizes`. Of
    several that these do not tell (an operation before has found them) each is one of `x`, in order."""
    if open_sizes(shape) > 1 and free_in(shape) <= sizes.keys():
        return x.reshape(tuple(substitute(d, sizes) for d in shape))
    wanted = tuple(-1 if getattr(d, "free_symbols", ()) else int(d) for d in shape)
    if len(wanted) == x.ndim and all(d in (-1, n) for d, n in zip(wanted, x.shape)):
        return x
    if wanted.count(-1) > 1:
        found = iter([n for n in x.shape if n != 1])
        wanted = tuple(d if d == 1 else next(found) for d in wanted)
    return x.reshape(wanted)
