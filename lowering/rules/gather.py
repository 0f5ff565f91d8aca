"""How ops that read at computed positions map their result's positions to their operands'.

A computed position is an index symbol that stands for an integer expression (`Reader.position`);
it is clamped as JAX's mode says, or its out-of-bounds reads are masked and replaced.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index
from dynacomp.lowering.kernel_ir.scalars import kind
from dynacomp.lowering.rules.reader import INT32, INT64, Point, Reader, Rule, dtype_of, shape_of
from dynacomp.lowering.sizes.indexing import ZERO, below

UINT32 = np.dtype(np.uint32)
_AFFINE = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


def as_index(expr: Expr) -> sympy.Expr | None:
    """The index expression that an integer expression is, when it is made of positions alone."""
    match expr:
        case Index(position):
            return position
        case Const(value, dtype) if kind(dtype) in ("i", "u"):
            return sympy.Integer(value)
        case Apply("convert", (inside,), dtype) if {kind(dtype), kind(inside.dtype)} <= {"i", "u"}:
            return as_index(inside)
        case Apply(fn, (left, right), dtype) if fn in _AFFINE and kind(dtype) in ("i", "u"):
            a, b = as_index(left), as_index(right)
            return None if a is None or b is None else _AFFINE[fn](a, b)
    return None


def widen(reader: Reader, start: Expr) -> Expr:
    """An index value in int32 or int64, whichever holds all of its dtype."""
    small = start.dtype.itemsize < 4 or start.dtype in (INT32, np.dtype(bool))
    return reader.apply("convert", start, dtype=INT32 if small else INT64)


def clamped(reader: Reader, start: Expr, last: sympy.Expr) -> sympy.Expr:
    """`start` moved into [0, last], as an index expression."""
    known = as_index(start)
    if known is not None and below(known, last + 1, reader.ranges):
        return known
    if last == 0:
        return ZERO
    if _narrows(start.dtype, last):
        start = reader.apply("min", start, reader.index(last, start.dtype))
        return reader.position(reader.apply("convert", start, dtype=INT32), last + 1)
    start = widen(reader, start)
    low = reader.apply("max", start, reader.const(0, start.dtype))
    return reader.position(reader.apply("min", low, reader.index(last, start.dtype)), last + 1)


def _narrows(dtype: np.dtype, last: sympy.Expr) -> bool:
    """Whether a position is an unsigned number that fits 32 bits with a sign once it is not over `last`: half as wide
    as int64, it lets twice the lanes into a register."""
    return dtype == UINT32 and not (last.is_Integer and last > np.iinfo(INT32).max)


def checked(reader: Reader, start: Expr, last: sympy.Expr) -> tuple[sympy.Expr, Expr | None]:
    """`start` as an index expression, and the condition that it lies in [0, last]."""
    known = as_index(start)
    if known is not None and below(known, last + 1, reader.ranges):
        return known, None
    if _narrows(start.dtype, last):
        inside: Expr | None = reader.apply("le", start, reader.index(last, start.dtype))
        return reader.position(reader.apply("convert", start, dtype=INT32), last + 1), inside
    start = widen(reader, start)
    inside = reader.all_of(
        reader.apply("ge", start, reader.const(0, start.dtype)),
        reader.apply("le", start, reader.index(last, start.dtype)),
    )
    return reader.position(start, last + 1), inside


def fill_value(dtype: np.dtype, given: Any) -> Any:
    """What JAX puts where a gather in mode "fill" reads outside."""
    if given is not None:
        return np.asarray(given, dtype).item()
    if kind(dtype) == "f":
        return float("nan")
    if kind(dtype) == "b":
        return True
    return int(np.iinfo(dtype).min if kind(dtype) == "i" else np.iinfo(dtype).max)


def is_fill(mode: Any) -> bool:
    """True for the mode that replaces reads (drops writes) outside the array."""
    return jax.lax.GatherScatterMode.from_any(mode) == jax.lax.GatherScatterMode.FILL_OR_DROP


def _gather(reader: Reader, node: Node, at: Point) -> Expr:
    of, indices = node.args
    p, dims = node.kwargs, node.kwargs["dimension_numbers"]
    batch = tuple(i for d, i in enumerate(at) if d not in dims.offset_dims)
    offsets = iter(at[d] for d in dims.offset_dims)
    batched = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims))
    column = {d: k for k, d in enumerate(dims.start_index_map)}
    fill, mask, source = is_fill(p["mode"]), None, []
    for d, (n, window) in enumerate(zip(shape_of(of), p["slice_sizes"])):
        whole = d in dims.collapsed_slice_dims or d in batched
        here = batch[batched[d]] if d in batched else ZERO if whole else next(offsets)
        if d in column:
            start = reader.read(indices, (*batch, sympy.Integer(column[d])))
            if fill:
                begin, inside = checked(reader, start, n - window)
                mask = reader.all_of(mask, inside)
            else:
                begin = clamped(reader, start, n - window)
            here = here + begin
        source.append(here)
    dtype = dtype_of(of)
    other = reader.const(fill_value(dtype, p["fill_value"]), dtype)
    return reader.read_where(mask, of, tuple(source), other)


def _starts(reader: Reader, starts: Any, shape: Point, window: Point) -> Point:
    return tuple(clamped(reader, reader.read(s, ()), n - w) for s, n, w in zip(starts, shape, window))


def _dynamic_slice(reader: Reader, node: Node, at: Point) -> Expr:
    of, *starts = node.args
    begins = _starts(reader, starts, shape_of(of), shape_of(node))
    return reader.read(of, tuple(i + b for i, b in zip(at, begins)))


def _dynamic_update_slice(reader: Reader, node: Node, at: Point) -> Expr:
    """The update inside its window, the operand elsewhere."""
    of, update, *starts = node.args
    window = shape_of(update)
    begins = _starts(reader, starts, shape_of(of), window)
    mask = None
    for i, b, n, w in zip(at, begins, shape_of(of), window):
        if n != w:
            mask = reader.all_of(mask, reader.compare("ge", i, b), reader.compare("lt", i, b + w))
    inside = tuple(i - b for i, b in zip(at, begins))
    if mask is None:
        return reader.read(update, inside)
    return reader.apply("select", mask, reader.read_under(mask, update, inside), reader.read(of, at))


GATHERS: dict[str, Rule] = {
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
