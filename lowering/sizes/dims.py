"""Symbolic sizes in lowered Graphs: a `Size` (while tracing) becomes SymPy, and goes back.

`to_sympy` rewrites the expression tree of a Size, with what its Scope found equal put in; `to_size` does SymPy's
arithmetic on Sizes. Symbols of one name are one size everywhere (`dynacomp.lowering.kernel_ir.loops.size`).

    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> n = Scope().symbol("n", 9)
    >>> to_sympy(2 * n + 1)
    2*n + 1
    >>> substitute(to_sympy(2 * n + 1), {"n": 4})
    9
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import sympy
from jax.core import ShapedArray

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import SYMBOL, Atom, Size, canonical, extreme, is_symbolic
from dynacomp.lowering.sizes.symbols import size


class SymbolicShapeError(TypeError):
    """A Graph cannot be lowered for all sizes at once; lower it for the sizes at hand instead. `sizes`: those that
    are to blame; none where that is not known."""

    def __init__(self, what: str, sizes: Iterable[Size] = ()) -> None:
        super().__init__(what)
        self.sizes = tuple(sizes)


def to_sympy(dim: Any) -> Any:
    """A dimension for a lowered Graph: an int stays an int, a Size becomes SymPy."""
    dim = canonical(dim)
    return _plain(_sympy(dim)) if is_symbolic(dim) else dim


@functools.lru_cache(maxsize=4096)
def _sympy(dim: Size) -> Any:
    return sympy.Add(*(k * sympy.Mul(*(_atom(a) ** power for a, power in mono)) for mono, k in dim.terms))


def _atom(atom: Atom) -> Any:
    if atom.op == SYMBOL:
        return size(atom.args[0])
    a, b = atom.args
    if atom.op in _TO_SYMPY:
        return _TO_SYMPY[atom.op](to_sympy(a), to_sympy(b))
    if not b >= 1:  # native code rounds down for such divisors alone
        raise SymbolicShapeError(f"{atom}: the divisor is not positive", [x for x in (a, b) if is_symbolic(x)])
    return sympy.floor(sympy.sympify(to_sympy(a)) / to_sympy(b))


def _plain(expr: Any) -> Any:
    """SymPy integers as Python ints; anything else unchanged."""
    return int(expr) if isinstance(expr, sympy.Integer) else expr


_TO_SYMPY: dict[str, Any] = {"max": sympy.Max, "min": sympy.Min}
_TO_SIZE: dict[Any, Callable[..., Any]] = {
    **{made: functools.partial(extreme, op) for op, made in _TO_SYMPY.items()},
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Mod: operator.mod,
}


def to_size(dim: Any, scope: Scope) -> Any:
    """A lowered dimension as a Size of `scope`.

    Raises SymbolicShapeError for what no Size says.
    """
    if not isinstance(dim, sympy.Expr) or dim.is_Integer:
        return int(dim)
    if isinstance(dim, sympy.Symbol):
        return scope.symbol(dim.name)
    if isinstance(dim, sympy.floor):
        top, bottom = sympy.fraction(sympy.together(dim.args[0]))
        return to_size(top, scope) // to_size(bottom, scope)
    if isinstance(dim, sympy.Pow) and dim.args[1].is_Integer and dim.args[1] > 0:
        return to_size(dim.args[0], scope) ** int(dim.args[1])
    if dim.func in _TO_SIZE:
        return functools.reduce(_TO_SIZE[dim.func], [to_size(a, scope) for a in dim.args])
    raise SymbolicShapeError(f"the size {dim} is no polynomial of sizes and quotients")


def substitute(dim: Any, sizes: Mapping[str, Any]) -> Any:
    """`dim` (int, SymPy or Size) with sizes put in by name; an int when all are known."""
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
    if isinstance(value, ShapedArray):  # what a callback gives
        return value.update(shape=map_dims(value.shape, fn))
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
