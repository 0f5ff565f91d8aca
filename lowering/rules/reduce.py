"""How each reduction becomes a fold: what is folded, over which extra loops, from which values.

float16 and bfloat16 sums accumulate in float32 and round once, as XLA does. `any` and `all` of integers
work bit by bit. Small products of
matrices are folds over the contracted dimensions, so that they fuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.kernel_ir.scalars import is_half, kind
from dynacomp.lowering.rules.reader import Point, Reader, dtype_of, shape_of


@dataclass(frozen=True)
class Fold:
    """One reduction: `value(reader, at, inner)` at result position `at` and inner position `inner`
    (one variable for each of `extents`), folded by `fold` in `dtype`; the result is converted to
    the node's dtype. `position` (argmax, argmin) is the folded position's index expression."""

    extents: tuple[sympy.Expr, ...]
    fold: str
    dtype: np.dtype
    value: Callable[[Reader, Point, Point], Expr]
    position: Callable[[Point], sympy.Expr] | None = None


def accumulator(fold: str, dtype: np.dtype) -> np.dtype:
    """The dtype in which a fold accumulates."""
    return np.dtype(np.float32) if fold in ("sum", "prod") and is_half(dtype) else dtype


def identity(fold: str, dtype: np.dtype) -> Any:
    """The Python scalar from which a fold starts."""
    if fold in ("sum", "xor", "any"):
        return np.zeros((), dtype).item()
    if fold == "prod" or fold == "all" and kind(dtype) == "b":
        return np.ones((), dtype).item()
    if fold == "all":  # of integers, bit by bit
        return int(np.invert(np.zeros((), dtype)))
    low = fold in ("max", "argmax")
    if kind(dtype) == "b":
        return not low
    if kind(dtype) == "f":
        return -np.inf if low else np.inf
    return int(np.iinfo(dtype).min if low else np.iinfo(dtype).max)


def _axes_fold(fold: str) -> Callable[[Node], Fold]:
    def rule(node: Node) -> Fold:
        of, axes = node.args[0], sorted(node.kwargs["axes"])
        shape, acc = shape_of(of), accumulator(fold, dtype_of(of))

        def value(reader: Reader, at: Point, inner: Point) -> Expr:
            x = reader.read(of, merge_axes(at, inner, axes))
            return reader.apply("convert", x, dtype=acc)

        return Fold(tuple(shape[a] for a in axes), fold, acc, value)

    return rule


def merge_axes(at: Point, inner: Point, axes: list[int]) -> Point:
    """The position in the operand: `inner` at `axes`, `at` at the others."""
    kept, folded = iter(at), iter(inner)
    return tuple(next(folded) if d in axes else next(kept) for d in range(len(at) + len(inner)))


def _arg_fold(fold: str) -> Callable[[Node], Fold]:
    def rule(node: Node) -> Fold:
        of, axes = node.args[0], list(node.kwargs["axes"])

        def value(reader: Reader, at: Point, inner: Point) -> Expr:
            return reader.read(of, merge_axes(at, inner, axes))

        extent = shape_of(of)[axes[0]]
        return Fold((extent,), fold, dtype_of(node), value, position=lambda inner: inner[0])

    return rule


def _dot(node: Node) -> Fold:
    """A product of matrices as a fold: result dimensions are batch, left free, right free."""
    left, right = node.args
    (left_in, right_in), (left_batch, right_batch) = node.kwargs["dimension_numbers"]
    acc = accumulator("sum", dtype_of(node))

    def operand(x: Node, batch: Any, inside: Any, at: Point, inner: Point, free: Point) -> Point:
        rest = iter(free)
        where = {**dict(zip(batch, at)), **dict(zip(inside, inner))}
        return tuple(where[d] if d in where else next(rest) for d in range(len(shape_of(x))))

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        batch = len(left_batch)
        split = len(shape_of(left)) - len(left_in)
        x = reader.read(left, operand(left, left_batch, left_in, at, inner, at[batch:split]))
        y = reader.read(right, operand(right, right_batch, right_in, at, inner, at[split:]))
        x, y = (reader.apply("convert", v, dtype=acc) for v in (x, y))
        return reader.apply("mul", x, y)

    return Fold(tuple(shape_of(left)[d] for d in left_in), "sum", acc, value)


FOLDS: dict[str, Callable[[Node], Fold]] = {
    "reduce_sum": _axes_fold("sum"),
    "reduce_prod": _axes_fold("prod"),
    "reduce_max": _axes_fold("max"),
    "reduce_min": _axes_fold("min"),
    "reduce_and": _axes_fold("all"),
    "reduce_or": _axes_fold("any"),
    "reduce_xor": _axes_fold("xor"),
    "argmax": _arg_fold("argmax"),
    "argmin": _arg_fold("argmin"),
    "dot_general": _dot,
}

CUMULATIVE: dict[str, str] = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
