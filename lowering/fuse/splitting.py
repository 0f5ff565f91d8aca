"""Big folds with few results, in two stages, so that all threads have work.

    before:  s = sum(x[i] for i < n)
    after:   part[c] = sum(x[B*c + j] for j < min(B, n - B*c))  for c < 64, in parallel; B = ceil(n / 64)
             s = sum(part[c] for c < 64)

And folds over rows too short for lanes, that lie side by side in memory (group norm):

    before:  s[g] = sum(x[64*i + 8*g + j] for i < n, j < 8)
    after:   part[g, j] = sum(x[64*i + 8*g + j] for i < n)        lanes over all 64
             s[g] = sum(part[g, j] for j < 8)

The blocks depend on sizes alone, never on the number of threads: results are the same on any machine.
Summing by blocks also makes float sums more exact.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.fuse.items import Item, make_fold_item
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.rules.reader import Point, Reader, shape_of
from dynacomp.lowering.rules.reduce import Fold
from dynacomp.lowering.sizes.indexing import FloorDiv, coefficient, flat, hint, total

BIG_FOLD, BLOCKS = 1 << 17, 64
ENOUGH_LANES, ENOUGH_ROWS = 1024, 8
SHORT, MANY = 32, 16


def worth_splitting(item: Item) -> bool:
    """A fold over much, into too few results to spread over threads (argmax keeps its order)."""
    if item.kind != "fold" or item.fold is None or item.fold.position is not None or item.work < BIG_FOLD:
        return False
    return total(item.shape) < (ENOUGH_LANES if item.lanes else ENOUGH_ROWS)


def split_fold(reader: Reader, node: Node, fold: Fold) -> tuple[Item, Item] | None:
    """(partial results, their fold), or None where no dimension is long enough."""
    sizes = [hint(n) for n in fold.extents]  # the outermost that suffices: a block is one piece of memory
    cut = next((k for k, n in enumerate(sizes) if n >= BLOCKS), sizes.index(max(sizes)))
    extent = fold.extents[cut]
    if sizes[cut] < 16:
        return None
    block = FloorDiv(extent + BLOCKS - 1, sympy.Integer(BLOCKS))
    count = FloorDiv(extent + block - 1, block) if extent.is_Integer else sympy.Integer(BLOCKS)
    part = _partial(reader, node, fold, cut, block, count)
    return part, _combine(reader, node, fold, part)


def _partial(reader: Reader, node: Node, fold: Fold, k: int, block: sympy.Expr, count: sympy.Expr) -> Item:
    shape = (count, *shape_of(node))
    extent = fold.extents[k]
    chunk = reader.point(shape)[0]
    length = block
    if not extent.is_Integer:  # the last blocks may be empty
        length = sympy.Min(block, sympy.Max(0, extent - block * chunk))
    elif extent % block != 0:
        length = sympy.Min(block, extent - block * chunk)

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        return fold.value(reader, at[1:], (*inner[:k], at[0] * block + inner[k], *inner[k + 1 :]))

    bounded = replace(fold, extents=(*fold.extents[:k], block, *fold.extents[k + 1 :]), value=value)
    item = make_fold_item(reader, f"{node.name}_part", shape, fold.dtype, bounded)
    return replace(item, extents=(*item.extents[:k], length, *item.extents[k + 1 :]))


def _combine(reader: Reader, node: Node, fold: Fold, part: Item) -> Item:
    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        return reader.load(part.name, flat((*inner, *at), part.shape), fold.dtype)

    whole = Fold(part.shape[:1], fold.fold, fold.dtype, value)
    return make_fold_item(reader, node.name, shape_of(node), node.aval.dtype, whole)


def short_rows(item: Item) -> int | None:
    """Which folded dimension is too short for lanes of its own while it continues the last result
    dimension in memory; None where lanes are better off otherwise."""
    outer, inner = _last(item.at), _last(item.inner)
    if item.kind != "fold" or item.fold is None or item.fold.position is not None or item.lanes or inner < 0:
        return None
    short, rest = item.extents[inner], total(item.extents) // max(hint(item.extents[inner]), 1)
    if outer < 0 or not short.is_Integer or hint(short) > SHORT or rest < MANY:
        return None
    matrices = [r.index for r in item.reads if {item.at[outer], item.inner[inner]} <= r.index.free_symbols]
    side_by_side = [coefficient(i, item.inner[inner]) == 1 and coefficient(i, item.at[outer]) == short
                    for i in matrices]
    return inner if matrices and all(side_by_side) else None


def _last(at: Point) -> int:
    return max((k for k, v in enumerate(at) if v != 0), default=-1)


def split_rows(reader: Reader, node: Node, fold: Fold, k: int) -> tuple[Item, Item]:
    """(the fold over all dimensions but `k`, the fold of that)."""
    shape = (*shape_of(node), fold.extents[k])

    def part_value(reader: Reader, at: Point, inner: Point) -> Expr:
        return fold.value(reader, at[:-1], (*inner[:k], at[-1], *inner[k:]))

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        return reader.load(part.name, flat((*at, *inner), shape), fold.dtype)

    others = replace(fold, extents=(*fold.extents[:k], *fold.extents[k + 1 :]), value=part_value)
    part = make_fold_item(reader, f"{node.name}_part", shape, fold.dtype, others)
    whole = Fold(fold.extents[k : k + 1], fold.fold, fold.dtype, value)
    return part, make_fold_item(reader, node.name, shape_of(node), node.aval.dtype, whole)
