"""How each op that only moves elements maps a position of its result to positions of its operands."""

from __future__ import annotations

import numpy as np
import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.rules.reader import BOOL, INT32, INT64, Point, Reader, Rule, dtype_of, shape_of
from dynacomp.lowering.sizes.indexing import ZERO, FloorDiv, FloorMod, flat, reshape_at


def _broadcast_in_dim(reader: Reader, node: Node, at: Point) -> Expr:
    of, shape = node.args[0], shape_of(node.args[0])
    dims = node.kwargs["broadcast_dimensions"]
    return reader.read(of, tuple(ZERO if n == 1 else at[d] for d, n in zip(dims, shape)))


def _reshape(reader: Reader, node: Node, at: Point) -> Expr:
    of = node.args[0]
    return reader.read(of, reshape_at(at, shape_of(node), shape_of(of), reader.ranges))


def _transpose(reader: Reader, node: Node, at: Point) -> Expr:
    source = [ZERO] * len(at)
    for to, of in enumerate(node.kwargs["permutation"]):
        source[of] = at[to]
    return reader.read(node.args[0], tuple(source))


def _slice(reader: Reader, node: Node, at: Point) -> Expr:
    starts = node.kwargs["start_indices"]
    steps = node.kwargs.get("strides") or (1,) * len(starts)
    return reader.read(node.args[0], tuple(i * s + a for i, a, s in zip(at, starts, steps)))


def _rev(reader: Reader, node: Node, at: Point) -> Expr:
    turned = set(node.kwargs["dimensions"])
    shape = shape_of(node)
    return reader.read(node.args[0], tuple(n - 1 - i if d in turned else i for d, (i, n) in enumerate(zip(at, shape))))


def _pad(reader: Reader, node: Node, at: Point) -> Expr:
    """Inside where each coordinate, less the low padding, is a multiple of 1 + interior and in range."""
    of, value = node.args
    mask, source = None, []
    for i, n, (low, high, inner) in zip(at, shape_of(of), node.kwargs["padding_config"]):
        shifted = i - low
        here, test = _pad_dimension(reader, shifted, n, low, high, inner)
        mask = reader.all_of(mask, test)
        source.append(here)
    return reader.read_where(mask, of, tuple(source), reader.read(value, ()))


def _pad_dimension(
    reader: Reader,
    shifted: sympy.Expr,
    n: sympy.Expr,
    low: int,
    high: int,
    inner: int,
) -> tuple[sympy.Expr, Expr | None]:
    step = inner + 1
    tests = []
    if _may_be(low, 1):
        tests.append(reader.compare("ge", shifted, ZERO))
    if _may_be(high, 1):
        tests.append(reader.compare("lt", shifted, (n - 1) * step + 1))
    apart = whole_steps(shifted, step) if inner else None
    if apart is not None:
        shifted = apart[0]
        tests.append(reader.const(apart[1] == 0, BOOL))
    elif inner:
        safe = sympy.Max(shifted, ZERO) if _may_be(low, 1) else shifted
        tests.append(reader.compare("eq", FloorMod(safe, sympy.sympify(step)), ZERO))
        shifted = FloorDiv(safe, sympy.sympify(step))
    return shifted, reader.all_of(*tests)


def whole_steps(position: sympy.Expr, step: int) -> tuple[sympy.Expr, int] | None:
    """(position // step, position % step) where the remainder is the same number everywhere; it may be negative."""
    terms = sympy.Add.make_args(position)
    rest = sum(int(t) for t in terms if t.is_Integer)
    whole = [sympy.cancel(t / step) for t in terms if not t.is_Integer]
    if not all(sympy.denom(t) == 1 for t in whole):
        return None
    return sympy.Add(*whole, rest // step), rest % step


def _may_be(amount: int | sympy.Expr, least: int) -> bool:
    """True unless `amount < least` is certain."""
    return not bool(sympy.sympify(amount) < least) if sympy.sympify(amount).is_number else True


def _concatenate(reader: Reader, node: Node, at: Point) -> Expr:
    """A chain of choices along the joined dimension; each operand is read only inside itself."""
    d, start = node.kwargs["dimension"], ZERO
    pieces = []
    for operand in node.args:
        pieces.append((operand, start))
        start = start + shape_of(operand)[d]
    operand, begin = pieces[-1]
    result = reader.read_under(reader.compare("ge", at[d], begin), operand, _shift(at, d, begin))
    for operand, begin in reversed(pieces[:-1]):
        before = reader.compare("lt", at[d], begin + shape_of(operand)[d])
        inside = before if begin == 0 else reader.all_of(reader.compare("ge", at[d], begin), before)
        value = reader.read_under(inside, operand, _shift(at, d, begin))
        result = reader.apply("select", before, value, result)
    return result


def _shift(at: Point, d: int, by: sympy.Expr) -> Point:
    return (*at[:d], at[d] - by, *at[d + 1 :])


def _iota(reader: Reader, node: Node, at: Point) -> Expr:
    along = node.kwargs["dimension"]
    position = reader.index(at[along], _index_dtype(dtype_of(node), shape_of(node)[along]))
    return reader.apply("convert", position, dtype=dtype_of(node))


def _index_dtype(dtype: np.dtype, extent: sympy.Expr) -> np.dtype:
    """What a position is before it is converted: 32 bits hold it where they can, as lanes go by the widest number."""
    return dtype if dtype in (INT32, INT64) else INT32 if extent.is_Integer and extent < 2**31 else INT64


def _iota_2x32(reader: Reader, node: Node, at: Point) -> tuple[Expr, Expr]:
    """The flat position as (high, low) words."""
    u32 = np.dtype(np.uint32)
    shape = tuple(map(sympy.sympify, node.kwargs["shape"]))
    low = reader.index(flat(at, shape), u32)
    size = sympy.Mul(*shape)
    if size.is_Integer and size < 2**32:
        return reader.const(0, u32), low
    return reader.index(FloorDiv(flat(at, shape), sympy.Integer(2**32)), u32), low


def _dim_as_value(reader: Reader, node: Node, at: Point) -> Expr:
    return reader.index(sympy.sympify(node.kwargs["dim"]), dtype_of(node))


LAYOUT: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _rev,
    "pad": _pad,
    "concatenate": _concatenate,
    "iota": _iota,
    "iota_2x32_shape": _iota_2x32,
    "dim_as_value": _dim_as_value,
    "again": lambda reader, node, at: reader.read(node.args[0], at),
}
