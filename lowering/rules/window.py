"""How windowed ops become loops: pooling, its sums, and the gradient of max-pooling.

`reduce_window_*` are folds over the window. `select_and_scatter_add` (the gradient) is two steps
that need no scatter and no atomics: `window_choice` numbers the cell that each window chose, and each
input then sums the windows that chose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.rules.reader import INT32, Point, Reader, Rule, dtype_of, op_of, shape_of
from dynacomp.lowering.rules.reduce import FOLDS, Fold, accumulator, identity
from dynacomp.lowering.sizes.indexing import ZERO, FloorDiv, FloorMod, flat

MAX_CELLS = 64
"""Windows of more cells than this are chosen from by XLA: the choice is written out cell by cell."""


def _window_fold(fold: str) -> Callable[[Node], Fold]:
    def rule(node: Node) -> Fold:
        of = node.args[0]
        acc = accumulator(fold, dtype_of(of))

        def value(reader: Reader, at: Point, inner: Point) -> Expr:
            source, mask = window_source(reader, at, inner, shape_of(of), node.kwargs)
            outside = reader.const(identity(fold, dtype_of(of)), dtype_of(of))
            return reader.apply("convert", reader.read_where(mask, of, source, outside), dtype=acc)

        return Fold(tuple(map(sympy.sympify, node.kwargs["window_dimensions"])), fold, acc, value)

    return rule


def window_source(
    reader: Reader,
    at: Point,
    inner: Point,
    shape: Point,
    p: Mapping[str, Any],
) -> tuple[Point, Expr | None]:
    """Which element cell `inner` of the window at `at` shows, and the condition that it is one."""
    source: list[sympy.Expr] = []
    mask = None
    ones = (1,) * len(at)
    rows = zip(
        at,
        inner,
        shape,
        p["window_strides"],
        p["padding"],
        p.get("base_dilation") or ones,
        p.get("window_dilation") or ones,
    )
    for i, r, n, stride, (low, high), base, dilation in rows:
        here = i * stride + r * dilation - low
        mask = reader.all_of(
            mask,
            reader.compare("ge", here, ZERO) if low else None,
            None if sympy.sympify(high).is_nonpositive else reader.compare("lt", here, (n - 1) * base + 1),
        )
        if base != 1:
            safe = sympy.Max(here, ZERO) if low else here
            mask = reader.all_of(mask, reader.compare("eq", FloorMod(safe, sympy.Integer(base)), ZERO))
            here = FloorDiv(safe, sympy.Integer(base))
        source.append(here)
    return tuple(source), mask


# the gradient of max-pooling


def choice_name(node: Node) -> str:
    """The name of the array that holds each window's choice."""
    return f"{node.name}_choice"


def why_not_select(node: Node) -> str | None:
    """Why a select_and_scatter_add cannot become loops, or None."""
    cells = math.prod(map(int, node.kwargs["window_dimensions"]))
    if dtype_of(node) == bool:
        return f"{op_of(node)} on bool"
    return None if cells <= MAX_CELLS else f"a window of {cells} cells"


def _window_choice(reader: Reader, node: Node, at: Point) -> Expr:
    """The number of the chosen cell: the first one that `select_prim` keeps against all after it
    (a NaN is never kept, as XLA has it)."""
    of, p = node.args[1], node.kwargs
    window = tuple(map(sympy.sympify, p["window_dimensions"]))
    keep = "ge" if p["select_prim"].name == "ge" else "le"
    best: Expr | None = None
    chosen, found = reader.const(0, INT32), reader.const(False, np.dtype(bool))
    for number, cell in enumerate(np.ndindex(*map(int, window))):
        source, inside = window_source(reader, at, tuple(map(sympy.Integer, cell)), shape_of(of), p)
        value = reader.read_under(inside, of, source)
        best = value if best is None else best
        kept = reader.apply("and", found, reader.apply(keep, best, value))
        take = reader.apply("not", kept)
        take = take if inside is None else reader.apply("and", inside, take)
        best = reader.apply("select", take, value, best)
        chosen = reader.apply("select", take, reader.const(number, INT32), chosen)
        found = reader.apply("or", found, reader.const(True, found.dtype) if inside is None else inside)
    return chosen


def _select_and_scatter(node: Node) -> Fold:
    """Each input sums the windows that show it and chose it."""
    source, operand = node.args
    windows, p = shape_of(source), node.kwargs
    window = tuple(map(sympy.sympify, p["window_dimensions"]))
    acc = accumulator("sum", dtype_of(node))

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        mask, where = None, []
        for i, r, n, stride, (low, _) in zip(at, inner, windows, p["window_strides"], p["padding"]):
            start = i + low - r  # of the window that shows input i in its cell r
            safe = start if r == 0 else sympy.Max(start, ZERO)
            step = sympy.Integer(stride)
            mask = reader.all_of(
                mask,
                None if r == 0 else reader.compare("ge", start, ZERO),
                None if stride == 1 else reader.compare("eq", FloorMod(safe, step), ZERO),
                reader.compare("lt", FloorDiv(safe, step), n),
            )
            where.append(FloorDiv(safe, step))
        zero = reader.const(np.zeros((), dtype_of(node)).item(), dtype_of(node))
        chosen = reader.load_where(mask, choice_name(node), flat(where, windows), INT32)
        mine = reader.apply("eq", chosen, reader.index(flat(inner, window), INT32))
        mine = mine if mask is None else reader.apply("and", mask, mine)
        picked = reader.apply("select", mine, reader.read_under(mask, source, tuple(where)), zero)
        return reader.apply("convert", picked, dtype=acc)

    return Fold(window, "sum", acc, value)


WINDOW_FOLDS: dict[str, Callable[[Node], Fold]] = {
    "reduce_window_sum": _window_fold("sum"),
    "reduce_window_max": _window_fold("max"),
    "reduce_window_min": _window_fold("min"),
    "select_and_scatter_add": _select_and_scatter,
}
WINDOW_RULES: dict[str, Rule] = {"window_choice": _window_choice}
ALL_FOLDS = FOLDS | WINDOW_FOLDS
