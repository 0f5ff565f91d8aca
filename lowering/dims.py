"""Symbolic sizes: JAX's `_DimExpr` (while tracing) to SymPy (in lowered Graphs) and back.

`to_sympy` evaluates what a `_DimExpr` prints (`3*n`, `floordiv(n, 2)`), `to_jax` does SymPy's
arithmetic on JAX's dimensions. Symbols of one name are one size everywhere
(`dynacomp.lowering.loops.size`).

    >>> import jax
    >>> n, = jax.export.symbolic_shape("n")
    >>> to_sympy(2 * n + 1)
    2*n + 1
    >>> substitute(to_sympy(2 * n + 1), {"n": 4})
    9
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import sympy

from dynacomp.capture.avals import Aval
from dynacomp.lowering.loops import size

_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "floordiv": lambda a, b: sympy.floor(sympy.sympify(a) / b),
    "mod": sympy.Mod,
    "max": sympy.Max,
    "min": sympy.Min,
}


class SymbolicShapeError(TypeError):
    """A Graph cannot be lowered for all sizes at once; lower it for the sizes at hand instead."""


def is_symbolic(dim: Any) -> bool:
    """True for a `_DimExpr`: a size that JAX knows only by an expression."""
    return not isinstance(dim, int) and jax.export.is_symbolic_dim(dim)


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Any:
    names: dict[str, Any] = {n: size(n) for n in _NAME.findall(text)}
    return _plain(eval(text.replace("^", "**"), {"__builtins__": {}}, {**names, **_FUNCTIONS}))


def _plain(expr: Any) -> Any:
    """SymPy integers as Python ints; anything else unchanged."""
    return int(expr) if isinstance(expr, sympy.Integer) else expr


def to_sympy(dim: Any) -> Any:
    """A dimension for a lowered Graph: an int stays an int, a `_DimExpr` becomes SymPy."""
    return _parse(str(dim)) if is_symbolic(dim) else dim


_TO_JAX: dict[Any, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Mod: operator.mod,
}
_SPELT = {sympy.Max: "max", sympy.Min: "min"}


def to_jax(dim: Any, scope: Any) -> Any:
    """A lowered dimension as JAX's; `scope` is a `jax.export.SymbolicScope` shared by a Graph.

    Raises SymbolicShapeError for what JAX cannot say (a fraction outside a floor).
    """
    if not isinstance(dim, sympy.Expr) or dim.is_Integer:
        return int(dim)
    if isinstance(dim, sympy.Symbol):
        return jax.export.symbolic_shape(dim.name, scope=scope)[0]
    if isinstance(dim, sympy.floor):
        top, bottom = sympy.fraction(sympy.together(dim.args[0]))
        return to_jax(top, scope) // to_jax(bottom, scope)
    args = [to_jax(a, scope) for a in dim.args]
    if dim.func in _TO_JAX:
        return functools.reduce(_TO_JAX[dim.func], args)
    if dim.func in _SPELT:
        return functools.reduce(
            lambda a, b: jax.export.symbolic_shape(f"{_SPELT[dim.func]}({a}, {b})", scope=scope)[0], args)
    if isinstance(dim, sympy.Pow) and isinstance(args[1], int) and args[1] > 0:
        return args[0] ** args[1]
    raise SymbolicShapeError(f"the size {dim} has no spelling as a JAX dimension")


def substitute(dim: Any, sizes: Mapping[str, Any]) -> Any:
    """`dim` (int, SymPy or `_DimExpr`) with sizes put in by name; an int when all are known."""
    dim = to_sympy(dim)
    if not isinstance(dim, sympy.Expr):
        return dim
    return _plain(dim.subs({s: sizes[s.name] for s in dim.free_symbols if s.name in sizes}))


def map_dims(value: Any, fn: Callable[[Any], Any]) -> Any:
    """A node's parameter with `fn` applied to every symbolic dimension in it (and NumPy integers in
    its tuples made plain, as JAX's own rules sometimes leave them)."""
    if isinstance(value, sympy.Expr) or is_symbolic(value):
        return fn(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_dims(v, fn) for v in value))
    if type(value) in (tuple, list):
        return type(value)(int(v) if isinstance(v, np.integer) else map_dims(v, fn) for v in value)
    if type(value) is dict:
        return {k: map_dims(v, fn) for k, v in value.items()}
    return value


def map_aval(aval: Any, fn: Callable[[Any], Any]) -> Any:
    """An Aval, or a tuple of them, with `fn` applied to its dimensions."""
    if isinstance(aval, tuple):
        return tuple(map_aval(a, fn) for a in aval)
    return Aval(tuple(map(fn, aval.shape)), aval.dtype, aval.weak_type)


def read_sizes(avals: Any, shapes: Any) -> dict[str, int]:
    """The sizes by name, read off actual shapes: every symbol must stand alone in some dimension.

    `avals` are the placeholders' Avals (SymPy dims), `shapes` the arrays' shapes in that order.
    """
    found: dict[str, int] = {}
    for aval, shape in zip(avals, shapes):
        for dim, actual in zip(aval.shape, shape):
            if isinstance(dim, sympy.Symbol):
                found.setdefault(dim.name, int(actual))
    return found
