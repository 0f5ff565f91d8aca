"""Expressions of the Kernel IR as Triton text, with the axes that each value has.

A value that depends on the lanes has a LANE axis, one that depends on the vector loop around it a COL
axis (see `source`); blocks broadcast against each other, so text only has to say the axes of
pointers. A `Scope` is what the writer knows where a statement stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from dynacomp.codegen.triton.index import LANE_NUMBER, print_index, safe
from dynacomp.codegen.triton.scalars import literal, register, spell, triton_type
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index, Load, Ref, Store
from dynacomp.lowering.kernel_ir.scalars import is_half

LANE, COL = 1, 2

ATOMIC_TYPES = {
    "add": frozenset({"int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"}),
    "min": frozenset({"int32", "uint32", "int64", "uint64"}),
    "max": frozenset({"int32", "uint32", "int64", "uint64"}),
}
"""The read-modify-write stores that GPUs do atomically with XLA's semantics, and their dtypes."""

_COMBINE = {"add": "add", "mul": "mul", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Value:
    """Text of a block, and the axes (LANE | COL) that it has."""

    text: str
    axes: int


@dataclass(frozen=True)
class Mask:
    """The name of a bool block: which iterations along its axes are inside their loop."""

    name: str
    axes: int


@dataclass(frozen=True)
class Linear:
    """The lanes as one number: `expr`, a polynomial of the loop variables, is the variable `lane`."""

    expr: sympy.Expr
    last: sympy.Symbol
    symbols: frozenset[sympy.Symbol]


@dataclass(frozen=True)
class Scope:
    """What is known where a statement stands.

    axes: of every name so far (shared, it grows, as do the next two). nonneg: names that are at least 0.
    called: what a loop variable is called here (sibling loops may share a symbol, Triton variables have
    one type). full: the axes that the enclosing loops span.
    masks: of the enclosing loops. locals: numel of each scratch buffer, one copy a lane. held: those of them that stay
    in registers, and what each holds. serial: nothing runs at the same time, so that read-modify-write needs no
    atomics.
    """

    axes: dict[str, int]
    nonneg: set[str]
    called: dict[sympy.Symbol, sympy.Symbol]
    locals: Mapping[str, Any]
    held: dict[str, Any]
    full: int = LANE
    masks: tuple[Mask, ...] = ()
    flat: bool = False
    serial: bool = False
    linear: Linear | None = None


def write(expr: Expr, scope: Scope) -> Value:
    """The Triton text of `expr`."""
    return _WRITERS[type(expr)](expr, scope)


def index(expr: Any, scope: Scope) -> Value:
    """The Triton text of an index expression; whole runs of lanes are written as `lane`."""
    expr = sympy.sympify(expr).xreplace(scope.called)
    axes = 0
    for symbol in expr.free_symbols:
        axes |= scope.axes.get(symbol.name, 0)
    return Value(print_index(_with_lane(expr, scope.linear), scope.nonneg), axes)


def _with_lane(expr: sympy.Expr, linear: Linear | None) -> sympy.Expr:
    """`c*(d*i0 + i1) + rest`, where the parenthesis is the lane, as `c*lane + rest`."""
    if linear is None or not expr.free_symbols & linear.symbols:
        return expr
    expanded = sympy.expand(expr)
    factor = expanded.coeff(linear.last, 1)
    rest = sympy.expand(expanded - factor * linear.expr)
    if factor == 0 or rest.free_symbols & linear.symbols or factor.free_symbols & linear.symbols:
        return expr
    return factor * LANE_NUMBER + rest


def _const(expr: Const, scope: Scope) -> Value:
    return Value(literal(expr.value, expr.dtype), 0)


def _ref(expr: Ref, scope: Scope) -> Value:
    return Value(safe(expr.name), scope.axes[expr.name])


def _index(expr: Index, scope: Scope) -> Value:
    value = index(expr.expr, scope)
    return Value(f"tl.cast({value.text}, {triton_type(register(expr.dtype))})", value.axes)


def _apply(expr: Apply, scope: Scope) -> Value:
    args = [write(a, scope) for a in expr.args]
    source = expr.args[1 if expr.fn == "select" else 0].dtype
    axes = 0
    for arg in args:
        axes |= arg.axes
    return Value(spell(expr.fn, source, expr.dtype, tuple(a.text for a in args)), axes)


def _load(expr: Load, scope: Scope) -> Value:
    if expr.buffer in scope.held:
        return scope.held[expr.buffer]
    place = _place(expr.buffer, expr.index, scope)
    extras = [write(e, scope) for e in (expr.mask, expr.other) if e is not None]
    axes, masks = _cover(place.axes | _union(extras), scope)
    if expr.mask is not None:
        masks.append(extras[0].text)
    other = f", other={extras[-1].text}" if expr.other is not None else ""
    guard = f", mask={' & '.join(masks)}{other}" if masks else ""
    text = f"tl.load({_widened(place, axes, scope)}{guard})"
    return Value(f"{text}.to(tl.float32)" if is_half(expr.dtype) else text, axes)


def store(stmt: Store, scope: Scope) -> str:
    """The Triton statement of a Store; read-modify-write is atomic unless the scope is serial."""
    place, value = _place(stmt.buffer, stmt.index, scope), write(stmt.value, scope)
    extras = [write(stmt.mask, scope)] if stmt.mask is not None else []
    wanted = place.axes | value.axes | _union(extras) | (0 if stmt.mode == "set" else scope.full)
    axes, masks = _cover(wanted, scope)
    masks += [f"({e.text})" for e in extras]
    guard = f", mask={' & '.join(masks)}" if masks else ""
    pointer, dtype = _widened(place, axes, scope), stmt.value.dtype
    if stmt.mode == "set" or scope.serial:
        old = Value(f"tl.load({pointer}{guard})", axes)
        return f"tl.store({pointer}, {_stored(_updated(stmt, old, value, dtype), dtype)}{guard})"
    return f"tl.atomic_{stmt.mode}({pointer}, {_stored(value.text, dtype)}{guard})"


def _updated(stmt: Store, old: Value, value: Value, dtype: Any) -> str:
    if stmt.mode == "set":
        return value.text
    loaded = f"{old.text}.to(tl.float32)" if is_half(dtype) else old.text
    return spell(_COMBINE[stmt.mode], dtype, dtype, (loaded, value.text))


def _stored(text: str, dtype: Any) -> str:
    return f"({text}).to({triton_type(dtype)})" if is_half(dtype) else text


def _place(buffer: str, offset: Any, scope: Scope) -> Value:
    """The pointer `buffer + offset`; a local's copy is found by the lane."""
    where = index(offset, scope)
    if buffer not in scope.locals:
        return Value(f"{safe(buffer)}_ptr + {where.text}", where.axes)
    own = f"lane*({print_index(scope.locals[buffer])})"
    return Value(f"{safe(buffer)}_ptr + {own} + {where.text}", where.axes | LANE)


def _cover(axes: int, scope: Scope) -> tuple[int, list[str]]:
    """The masks that concern these axes, and the axes with those of the masks."""
    for mask in scope.masks:
        axes |= mask.axes if mask.axes & axes else 0
    return axes, [m.name for m in scope.masks if m.axes & axes]


def _widened(place: Value, axes: int, scope: Scope) -> str:
    """The pointer text with the axes that it lacks."""
    missing = axes & ~place.axes
    return place.text + (" + lane0" if missing & LANE else "") + (" + col0" if missing & COL else "")


def _union(values: list[Value]) -> int:
    axes = 0
    for value in values:
        axes |= value.axes
    return axes


_WRITERS: dict[type, Any] = {Const: _const, Ref: _ref, Load: _load, Index: _index, Apply: _apply}
