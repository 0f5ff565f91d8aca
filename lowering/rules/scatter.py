"""How scatters become loops.

Where every result element meets at most one update (a `take_along_axis` gradient, `x.at[i].set(v)`
with one `i`), a scatter is a choice, inlined like any elementwise op (`SINGLE`). Otherwise it is
a copy of the operand followed by loops over the updates that store into it (`scatter_store`): lanes
and threads run over the dimensions that an update covers whole, the updates themselves in order, so that
results are the same however many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.rules.gather import checked, clamped, is_fill
from dynacomp.lowering.rules.reader import Point, Reader, Rule, shape_of
from dynacomp.lowering.sizes.indexing import ZERO, flat, product

MODES = {"scatter": "set", "scatter_add": "add", "scatter_mul": "mul", "scatter_min": "min", "scatter_max": "max"}


@dataclass(frozen=True)
class Updates:
    """The dimensions of a scatter. window: operand dimensions that an update covers, with the update
    dimension and its size; steps: the update dimensions that number the updates, with their sizes;
    batch: operand dimension -> position among `steps`; starts: operand dimension -> index column."""

    window: dict[int, tuple[int, sympy.Expr]]
    steps: tuple[tuple[int, sympy.Expr], ...]
    batch: dict[int, int]
    starts: dict[int, int]

    def size(self, d: int) -> sympy.Expr:
        """How many elements an update covers along operand dimension `d`."""
        return self.window[d][1] if d in self.window else sympy.Integer(1)


def updates_of(node: Node) -> Updates:
    """The dimensions of a scatter node."""
    operand, _, updates = node.args
    dims = node.kwargs["dimension_numbers"]
    sizes = shape_of(updates)
    covered = [
        d
        for d in range(len(shape_of(operand)))
        if d not in dims.inserted_window_dims and d not in dims.operand_batching_dims
    ]
    window = {d: (u, sizes[u]) for d, u in zip(covered, dims.update_window_dims)}
    steps = tuple((u, n) for u, n in enumerate(sizes) if u not in dims.update_window_dims)
    batch = dict(zip(dims.operand_batching_dims, dims.scatter_indices_batching_dims))
    return Updates(window, steps, batch, {d: k for k, d in enumerate(dims.scatter_dims_to_operand_dims)})


def free_steps(dims: Updates) -> list[int]:
    """The positions among `steps` that no batch dimension fixes."""
    return [k for k in range(len(dims.steps)) if k not in dims.batch.values()]


def is_single(node: Node) -> bool:
    """Does every element meet at most one update?"""
    dims = updates_of(node)
    return product(tuple(dims.steps[k][1] for k in free_steps(dims))) == 1


def _start(reader: Reader, node: Node, dims: Updates, d: int, step: Point) -> tuple[sympy.Expr, Expr | None]:
    """Where the update at `step` begins along operand dimension `d`, and the condition to apply it."""
    if d not in dims.starts:
        return ZERO, None
    start = reader.read(node.args[1], (*step, sympy.Integer(dims.starts[d])))
    last = shape_of(node.args[0])[d] - dims.size(d)
    if is_fill(node.kwargs["mode"]) or not _is_clip(node):
        return checked(reader, start, last)
    fits = reader.compare("lt", ZERO, last + 1)  # else the operand is empty, and there is nothing to change
    return clamped(reader, start, last), None if fits.truth else fits


def _is_clip(node: Node) -> bool:
    return "CLIP" in str(node.kwargs["mode"]).upper()


def _update_at(dims: Updates, step: Point, offsets: dict[int, sympy.Expr]) -> Point:
    """The position in the updates of one element of one update."""
    where = {u: i for (u, _), i in zip(dims.steps, step)}
    where |= {u: offsets[d] for d, (u, _) in dims.window.items()}
    return tuple(where[u] for u in sorted(where))


def _single(reader: Reader, node: Node, at: Point) -> Expr:
    """The operand, or what its one update makes of it."""
    operand, _, updates = node.args
    dims = updates_of(node)
    step = [ZERO] * len(dims.steps)
    for d, k in dims.batch.items():
        step[k] = at[d]
    mask, offsets = None, {}
    for d, n in enumerate(shape_of(operand)):
        begin, inside = _start(reader, node, dims, d, tuple(step))
        width = dims.size(d)
        offsets[d] = at[d] - begin
        mask = reader.all_of(mask, inside)
        if d in dims.starts and n != width:
            mask = reader.all_of(mask, *_covers(reader, at[d], begin, width))
    old = reader.read(operand, at)
    new = reader.read_under(mask, updates, _update_at(dims, tuple(step), offsets))
    how = MODES[node.target.name]
    value = new if how == "set" else reader.apply(how, old, new)
    return value if mask is None else reader.apply("select", mask, value, old)


def _covers(reader: Reader, at: sympy.Expr, begin: sympy.Expr, width: sympy.Expr) -> tuple[Expr, ...]:
    if width == 1:
        return (reader.compare("eq", at, begin),)
    return reader.compare("ge", at, begin), reader.compare("lt", at, begin + width)


@dataclass(frozen=True)
class ScatterStore:
    """The loops of a scatter: over `rows` (batch and window) and `inner` (the updates in order),
    `buffer[index] mode= value` where `mask`."""

    rows: tuple[sympy.Expr, ...]
    extents: tuple[sympy.Expr, ...]
    mode: str
    at: Point
    inner: Point
    value: Expr
    index: sympy.Expr
    mask: Expr | None


def scatter_store(reader: Reader, node: Node) -> ScatterStore:
    """The loops over the updates of a scatter node."""
    operand, _, updates = node.args
    dims = updates_of(node)
    rows = [(d, dims.steps[k][1]) for d, k in dims.batch.items()] + [(d, n) for d, (_, n) in dims.window.items()]
    rows.sort()
    free = free_steps(dims)
    extents = tuple(dims.steps[k][1] for k in free)
    at = reader.point([n for _, n in rows])
    inner = reader.point(extents, depth=sum(v != 0 for v in at))
    along = {d: v for (d, _), v in zip(rows, at)}
    step = [
        along[next(d for d, j in dims.batch.items() if j == k)] if k in dims.batch.values() else inner[free.index(k)]
        for k in range(len(dims.steps))
    ]
    mask, target = None, []
    for d in range(len(shape_of(operand))):
        begin, inside = _start(reader, node, dims, d, tuple(step))
        mask = reader.all_of(mask, inside)
        target.append(begin + along.get(d, ZERO))
    value = reader.read(updates, _update_at(dims, tuple(step), along))
    return ScatterStore(
        tuple(n for _, n in rows),
        extents,
        MODES[node.target.name],
        at,
        inner,
        value,
        flat(target, shape_of(operand)),
        mask,
    )


def slice_store(reader: Reader, node: Node) -> ScatterStore:
    """The loops over the update of a `dynamic_update_slice`."""
    operand, update, *starts = node.args
    shape, rows = shape_of(operand), shape_of(update)
    at = reader.point(rows)
    begins = [clamped(reader, reader.read(s, ()), n - w) for s, n, w in zip(starts, shape, rows)]
    index = flat([i + b for i, b in zip(at, begins)], shape)
    return ScatterStore(rows, (), "set", at, (), reader.read(update, at), index, None)


STORES: dict[str, Callable[[Reader, Node], ScatterStore]] = {
    **dict.fromkeys(MODES, scatter_store), "dynamic_update_slice": slice_store,
}
"""Ops that change parts of an array, which can be done where it is: how."""


def why_not_scatter(node: Node) -> str | None:
    """Why a scatter cannot become loops, or None."""
    custom: Any = node.kwargs.get("update_jaxpr")
    if node.target.name == "scatter" and custom is not None:
        return "a scatter that applies a function"
    return None


SINGLE: dict[str, Rule] = dict.fromkeys(MODES, _single)
