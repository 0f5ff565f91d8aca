"""SymPy index expressions as Triton text.

Triton divides integers towards zero, SymPy's `floor` and `Mod` go downwards: where an operand may be
negative, the device functions `lib.floordiv` and `lib.floormod` stand in.

    >>> from dynacomp.lowering.sizes.symbols import size, symbol
    >>> print_index(size("d") * symbol("i0") + sympy.floor(symbol("i1") / 2), {"i0", "i1", "d"})
    'd*i0 + i1//2'
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Set
from typing import Any

import sympy

from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod

LANE_NUMBER = sympy.Symbol("@lane", integer=True, nonnegative=True)
"""The flat number of a lane, the variable `lane` of generated source."""


def print_index(expr: Any, nonneg: Set[str] = frozenset()) -> str:
    """The text of an integer expression; `nonneg` are the names known to be at least 0.

    Raises TypeError for an expression that no index has.
    """
    expr = sympy.sympify(expr)
    writer = _WRITERS.get(expr.func) or (_integer if expr.is_Integer else None)
    if writer is None:
        raise TypeError(f"Triton has no spelling of the index {expr} ({expr.func.__name__})")
    return writer(expr, nonneg)


def is_nonneg(expr: sympy.Expr, nonneg: Set[str]) -> bool:
    """True when `expr` cannot be negative, provided that the names in `nonneg` are not."""
    if expr.is_Symbol:
        return bool(expr.is_nonnegative) or expr.name in nonneg
    if expr.is_number:
        return bool(expr >= 0)
    known = (sympy.Add, sympy.Mul, sympy.floor, sympy.Pow, sympy.Mod, sympy.Min, FloorDiv, FloorMod)
    if expr.func is sympy.Max:
        return any(is_nonneg(a, nonneg) for a in expr.args)
    return expr.func in known and all(is_nonneg(a, nonneg) for a in expr.args)


def ordered(expr: sympy.Expr) -> list[sympy.Expr]:
    """The arguments of a sum or product in an order that is the same in every process."""
    return sorted(expr.args, key=str)


def _integer(expr: sympy.Expr, nonneg: Set[str]) -> str:
    return str(int(expr))


def _symbol(expr: sympy.Symbol, nonneg: Set[str]) -> str:
    return "lane" if expr == LANE_NUMBER else safe(expr.name)


def _atom(expr: sympy.Expr, nonneg: Set[str]) -> str:
    text = print_index(expr, nonneg)
    return text if expr.is_Symbol or (expr.is_Integer and expr >= 0) else f"({text})"


def _mul(expr: sympy.Mul, nonneg: Set[str]) -> str:
    return "*".join(_atom(a, nonneg) for a in ordered(expr))


def _add(expr: sympy.Add, nonneg: Set[str]) -> str:
    return " + ".join(
        print_index(a, nonneg) if a.func is sympy.Mul else _atom(a, nonneg) for a in ordered(expr)
    )


def _pow(expr: sympy.Pow, nonneg: Set[str]) -> str:
    base, exponent = expr.args
    if not (exponent.is_Integer and exponent > 0):
        raise TypeError(f"Triton has no spelling of the index {expr}: its exponent is not a positive integer")
    return "*".join([_atom(base, nonneg)] * int(exponent))


def _floor(expr: sympy.Expr, nonneg: Set[str]) -> str:
    top, bottom = sympy.fraction(sympy.together(expr.args[0]))
    if is_nonneg(top, nonneg):
        return f"{_atom(top, nonneg)}//{_atom(bottom, nonneg)}"
    return f"lib.floordiv({print_index(top, nonneg)}, {print_index(bottom, nonneg)})"


def _mod(expr: sympy.Expr, nonneg: Set[str]) -> str:
    top, bottom = expr.args
    if is_nonneg(top, nonneg):
        return f"{_atom(top, nonneg)} % {_atom(bottom, nonneg)}"
    return f"lib.floormod({print_index(top, nonneg)}, {print_index(bottom, nonneg)})"


def _nested(name: str) -> Callable[[sympy.Expr, Set[str]], str]:
    def write(expr: sympy.Expr, nonneg: Set[str]) -> str:
        first, *rest = ordered(expr)
        text = print_index(first, nonneg)
        for arg in rest:
            text = f"{name}({text}, {print_index(arg, nonneg)})"
        return text

    return write


def _plain(operator: str) -> Callable[[sympy.Expr, Set[str]], str]:
    """`FloorDiv` and `FloorMod`, whose first argument is never negative."""
    return lambda expr, nonneg: operator.join(_atom(a, nonneg) for a in expr.args)


_WRITERS: dict[Any, Callable[[Any, Set[str]], str]] = {
    sympy.Symbol: _symbol,
    sympy.Add: _add,
    sympy.Mul: _mul,
    sympy.Pow: _pow,
    sympy.floor: _floor,
    sympy.Mod: _mod,
    FloorDiv: _plain("//"),
    FloorMod: _plain(" % "),
    sympy.Max: _nested("tl.maximum"),
    sympy.Min: _nested("tl.minimum"),
}

_TAKEN = frozenset("tl lib libdevice triton range float lane inside lane0 column col0 IDX R C".split())


def safe(name: str) -> str:
    """A name of the IR as a Python name that means nothing else in a kernel's source."""
    return f"{name}_" if name in _TAKEN or name.startswith("_") or keyword.iskeyword(name) else name
