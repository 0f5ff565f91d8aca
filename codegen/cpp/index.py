"""SymPy index expressions as C++ `int64_t` expressions, and how they move along a vector loop.

Every name of the Kernel IR (loop variable, size, value, buffer) gets a trailing underscore in C++,
so that none can clash with a function of the headers.

    >>> i, n = sympy.symbols("i n", integer=True)
    >>> index_code(n * i + FloorDiv(i, sympy.Integer(2)))
    'i_*n_ + floor_div(i_, 2)'
    >>> step_along(3 * i + n, "i")
    3
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import sympy

from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod

Rename = Mapping[str, str]


def cpp_name(name: str) -> str:
    """The C++ identifier of an IR name."""
    return re.sub(r"\W", "_", name) + "_"


def index_code(expr: sympy.Expr | int, rename: Rename | None = None) -> str:
    """`expr` as C++; `rename` says what to print for some symbols instead of their own names.

    Raises ValueError for a function that no index may hold.
    """
    return _code(sympy.sympify(expr), rename or {})


def _code(expr: sympy.Expr, rename: Rename) -> str:
    if expr.is_Integer:
        return f"{int(expr)}" if abs(int(expr)) < 2**31 else f"INT64_C({int(expr)})"
    if expr.is_Symbol:
        return rename.get(expr.name, cpp_name(expr.name))
    if expr.is_Add:
        return " + ".join(_factor(a, rename, sums=True) for a in expr.as_ordered_terms())
    if expr.is_Mul:
        return _product(expr, rename)
    if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
        return "*".join([_factor(expr.base, rename)] * int(expr.exp))
    for kind, write in _FUNCTIONS.items():
        if isinstance(expr, kind):
            return write(expr, rename)
    raise ValueError(f"no C++ for the index expression {expr} ({type(expr).__name__})")


def _factor(expr: sympy.Expr, rename: Rename, sums: bool = False) -> str:
    text = _code(expr, rename)
    return f"({text})" if (expr.is_Add and not sums) or text.startswith("-") else text


def _product(expr: sympy.Expr, rename: Rename) -> str:
    top, bottom = expr.as_numer_denom()
    if bottom != 1:  # sizes divide exactly where the graph's shapes say so
        return f"floor_div({_code(top, rename)}, {_code(bottom, rename)})"
    return "*".join(_factor(a, rename) for a in expr.as_ordered_factors())


def _quotient(name: str) -> Callable[[sympy.Expr, Rename], str]:
    def write(expr: sympy.Expr, rename: Rename) -> str:
        top, bottom = sympy.together(expr.args[0]).as_numer_denom()
        return f"{name}({_code(top, rename)}, {_code(bottom, rename)})"

    return write


def _call(name: str) -> Callable[[sympy.Expr, Rename], str]:
    return lambda expr, rename: f"{name}({', '.join(_code(a, rename) for a in expr.args)})"


def _nested(name: str) -> Callable[[sympy.Expr, Rename], str]:
    def write(expr: sympy.Expr, rename: Rename) -> str:
        first, *rest = [_code(a, rename) for a in expr.args]
        for text in rest:
            first = f"{name}({first}, {text})"
        return first

    return write


_FUNCTIONS: dict[type, Callable[[sympy.Expr, Rename], str]] = {
    FloorDiv: _call("floor_div"),
    FloorMod: _call("floor_mod"),
    sympy.floor: _quotient("floor_div"),
    sympy.ceiling: _quotient("ceil_div"),
    sympy.Mod: _call("floor_mod"),
    sympy.Max: _nested("most"),
    sympy.Min: _nested("least"),
    sympy.Abs: lambda expr, rename: f"magnitude({_code(expr.args[0], rename)})",
}


def names_in(expr: sympy.Expr | int) -> frozenset[str]:
    """The names of the symbols of an index expression."""
    return frozenset(s.name for s in sympy.sympify(expr).free_symbols)


def step_along(expr: sympy.Expr, var: str) -> sympy.Expr | None:
    """How much `expr` grows per step of `var` (0: not at all), or None where that is not constant."""
    if var not in names_in(expr):
        return sympy.Integer(0)
    if expr.is_Symbol:
        return sympy.Integer(1)
    if expr.is_Add:
        steps = [step_along(a, var) for a in expr.args]
        return None if any(s is None for s in steps) else sympy.Add(*steps)
    if expr.is_Mul:
        moving = [a for a in expr.args if var in names_in(a)]
        step = step_along(moving[0], var) if len(moving) == 1 else None
        return None if step is None else step * sympy.Mul(*(a for a in expr.args if a is not moving[0]))
    return None

