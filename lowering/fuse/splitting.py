"""Big folds with few results, in two stages, so that all threads have work.

    before:  s = sum(x[i] for i < n)
    after:   part[c] = sum(x[B*c + j] for j < min(B, n - B*c))  for c < 64, in parallel; B = ceil(n / 64)
             s = sum(part[c] for c < 64)

And folds over rows too short for lanes, that lie side by side in memory (group norm):

    before:  s[g] = sum(x[64*i + 8*g + j] for i < n, j < 8)
    after:   part[g, j] = sum(x[64*i + 8*g + j] for i < n)        lanes over all 64
             s[g] = sum(part[g, j] for j < 8)

And folds down columns too few for the lanes of a register (the colours of an image):

    before:  s[c] = sum(x[3*i + c] for i < 16*n)                  lanes over 3
    after:   part[r, c] = sum(x[48*i + 3*r + c] for i < n)        lanes over all 48
             s[c] = sum(part[r, c] for r < 16)

The blocks (64 on CPUs, see `machine`) depend on sizes alone, never on the number of threads: results are the same on
any CPU.
Summing by blocks also makes float sums more exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import sympy

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.fuse.items import Item, make_fold_item
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.kernel_ir.machine import Machine
from dynacomp.lowering.rules.reader import Point, Reader, shape_of
from dynacomp.lowering.rules.reduce import Fold
from dynacomp.lowering.sizes.indexing import FloorDiv, coefficient, flat, hint, total

SHORT, MANY, WIDE = 32, 16, 64
ENOUGH_ROWS = 8


def blocks_of(item: Item, machine: Machine) -> int:
    """Into how many parts a fold is divided: one over much, into too few results to spread over what runs at once
    (argmax keeps its order); 0 for any other."""
    if item.kind != "fold" or item.fold is None or item.fold.position is not None or item.work < machine.big_fold:
        return 0
    enough, results = machine.lanes if item.lanes else machine.rows, total(item.shape)
    return enough.parts(results) if results < enough.results else 0


@dataclass(frozen=True)
class Folded:
    """An array that a fold makes."""

    name: str
    shape: Point
    dtype: np.dtype
    fold: Fold

    def item(self, reader: Reader) -> Item:
        return make_fold_item(reader, self.name, self.shape, self.dtype, self.fold)


def stages_of(reader: Reader, node: Node, fold: Fold, item: Item, machine: Machine) -> tuple[Item, ...]:
    """The item of a fold, or the folds that it is better done as."""
    whole = Folded(node.name, shape_of(node), node.aval.dtype, fold)
    if (short := short_rows(item)) is not None:
        return split_rows(reader, whole, short)
    if rows := few_columns(item):
        part = wider(reader, whole, rows)
        stages = _in_blocks(reader, part, part.item(reader), machine)
        return (*stages, _combine(reader, whole, part.name, part.shape, -2))
    return _in_blocks(reader, whole, item, machine)


def _in_blocks(reader: Reader, whole: Folded, item: Item, machine: Machine) -> tuple[Item, ...]:
    blocks = blocks_of(item, machine)
    return (split_fold(reader, whole, blocks) if blocks else None) or (item,)


def split_fold(reader: Reader, whole: Folded, blocks: int) -> tuple[Item, Item] | None:
    """(partial results, their fold), or None where no dimension is long enough."""
    fold = whole.fold
    sizes = [hint(n) for n in fold.extents]  # the outermost that suffices: a block is one piece of memory
    cut = next((k for k, n in enumerate(sizes) if n >= blocks), sizes.index(max(sizes)))
    extent = fold.extents[cut]
    if sizes[cut] < 16:
        return None
    block = FloorDiv(extent + blocks - 1, sympy.Integer(blocks))
    count = FloorDiv(extent + block - 1, block) if extent.is_Integer else sympy.Integer(blocks)
    part = _partial(reader, whole, cut, block, count)
    return part, _combine(reader, whole, part.name, part.shape, 0)


def _partial(reader: Reader, whole: Folded, k: int, block: sympy.Expr, count: sympy.Expr) -> Item:
    fold, shape = whole.fold, (count, *whole.shape)
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
    item = make_fold_item(reader, f"{whole.name}_part", shape, fold.dtype, bounded)
    return replace(item, extents=(*item.extents[:k], length, *item.extents[k + 1 :]))


def _combine(reader: Reader, whole: Folded, part: str, shape: Point, k: int) -> Item:
    """The fold of the array `part` along its dimension `k`."""
    k %= len(shape)

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        return reader.load(part, flat((*at[:k], *inner, *at[k:]), shape), whole.fold.dtype)

    fold = Fold(shape[k : k + 1], whole.fold.fold, whole.fold.dtype, value)
    return make_fold_item(reader, whole.name, whole.shape, whole.dtype, fold)


def few_columns(item: Item) -> int:
    """How many rows of a fold down columns are a row of one with columns enough for lanes; 0 where that is no gain."""
    column, row = _last(item.at), _last(item.inner)
    if item.kind != "fold" or item.fold is None or item.fold.position is not None or not item.lanes or row < 0:
        return 0
    if column != len(item.shape) - 1 or column < 0 or not item.shape[column].is_Integer:
        return 0
    extent, columns = item.extents[row], hint(item.shape[column])
    names = {item.at[column], item.inner[row]}
    matrices = [r.index for r in item.reads if names & r.index.free_symbols]
    side_by_side = [coefficient(i, item.at[column]) == 1 and coefficient(i, item.inner[row]) == columns
                    for i in matrices]
    if columns >= MANY or not extent.is_Integer or not matrices or not all(side_by_side):
        return 0
    fits = [n for n in range(2, WIDE // columns + 1) if extent % n == 0 and extent // n >= ENOUGH_ROWS]
    return max((n for n in fits if n * columns >= MANY), default=0)


def wider(reader: Reader, whole: Folded, rows: int) -> Folded:
    """The fold that keeps `rows` partial results of each column."""
    fold, shape = whole.fold, (*whole.shape[:-1], sympy.Integer(rows), whole.shape[-1])
    k = _last(reader.point(fold.extents))

    def value(reader: Reader, at: Point, inner: Point) -> Expr:
        return fold.value(reader, (*at[:-2], at[-1]), (*inner[:k], inner[k] * rows + at[-2], *inner[k + 1 :]))

    extents = (*fold.extents[:k], fold.extents[k] / rows, *fold.extents[k + 1 :])
    return Folded(f"{whole.name}_rows", shape, fold.dtype, replace(fold, extents=extents, value=value))


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


def split_rows(reader: Reader, whole: Folded, k: int) -> tuple[Item, Item]:
    """(the fold over all dimensions but `k`, the fold of that)."""
    fold, shape = whole.fold, (*whole.shape, whole.fold.extents[k])

    def part_value(reader: Reader, at: Point, inner: Point) -> Expr:
        return fold.value(reader, at[:-1], (*inner[:k], at[-1], *inner[k:]))

    others = replace(fold, extents=(*fold.extents[:k], *fold.extents[k + 1 :]), value=part_value)
    part = make_fold_item(reader, f"{whole.name}_part", shape, fold.dtype, others)
    return part, _combine(reader, whole, part.name, shape, -1)
