"""Which Items share a kernel.

A Group runs its items inside common row loops. Two shapes of group:

    lanes   the last row loop is the vector loop, everything happens inside it, lane by lane: elementwise
            items, and folds over leading dimensions with what follows them (softmax over axis 0).
    rows    the rows are a prefix; each item loops over the rest inside (softmax: the rows are the
            rows). An item may read what another wrote in the same row, wherever in the row.

An item joins a group when every value it reads from the group lies in its own lane or row,
and when no path leaves the group and comes back.

    before:  max -> sub, exp -> sum -> div          four realised nodes
    after:   one Group, rows = all but the last dimension
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.kernel_ir.loops import Apply
from dynacomp.lowering.kernel_ir.scalars import DEAR, SCALARS
from dynacomp.lowering.rules.reader import Reader, below_of, cost, walk
from dynacomp.lowering.sizes.indexing import divmod_index, flat, hint, product, reshape_blocks, total, unflatten

MIN_ROWS, MIN_LANES = 8, 256
"""Fewer rows than this do not keep the threads busy: such items fuse only when they are small."""
SMALL_WORK, MANY_ROWS = 1 << 14, 64
MAX_ITEMS = 48
"""More in one kernel: an optimizer's updates of parameters that are alike. Nothing is gained by it, and the compiler's
time grows faster than the kernel."""


@dataclass(eq=False)
class Group:
    """Items that will be one kernel, in order. dims: which dimensions of each item are the rows;
    lanes: see the module's docstring."""

    items: list[Item]
    dims: dict[str, list[int]]
    lanes: bool

    @property
    def names(self) -> set[str]:
        return set(self.dims)


@dataclass(eq=False)
class Cut:
    """An item cut into a number of rows: the dimensions that are the rows, which of them `at` lies in, and what was
    found of each read (by its place in `item.reads`): whether it stays in that row."""

    dims: list[int]
    row: sympy.Expr
    stays: dict[int, bool] = field(default_factory=dict)


def cut(item: Item, rows: sympy.Expr) -> Cut | None:
    """The item cut into `rows` rows; None where no leading dimensions make them up. Groups that grow ask again and
    again: it is kept with the item.

    A scan's rows end before its axis. Trailing dimensions of size 1 stay inside the row.
    """
    if rows not in item.cuts:
        count = _leading(item.shape[:item.axis] if item.kind == "scan" else item.shape, rows)
        item.cuts[rows] = None if count is None else Cut(
            list(range(count)), flat(list(item.at[:count]), item.shape[:count]))
    found: Cut | None = item.cuts[rows]
    return found


@functools.lru_cache(maxsize=4096)
def _leading(shape: tuple[sympy.Expr, ...], rows: sympy.Expr) -> int | None:
    """How many leading dimensions make up `rows` positions."""
    return next((k for k in range(len(shape) + 1) if product(shape[:k]) == rows), None)


def row_exact(reader: Reader, item: Item, producers: Mapping[str, Item], rows: sympy.Expr) -> bool:
    """Does every read of a producer stay in the item's own row?"""
    found = cut(item, rows)
    return found is not None and all(_stays(reader, item, found, place, producers[load.buffer], rows)
                                     for place, load in enumerate(item.reads) if load.buffer in producers)


def _stays(reader: Reader, item: Item, found: Cut, place: int, producer: Item, rows: sympy.Expr) -> bool:
    """Does a read of a producer, of `rows` rows too, stay in the item's row?"""
    if place not in found.stays:
        inside = divmod_index(item.reads[place].index, sympy.cancel(producer.numel / rows), reader.ranges)[0]
        found.stays[place] = bool(inside == found.row)
    return found.stays[place]


def alone(item: Item) -> Group:
    """A group of one: lanes where the item wants them, else rows over its result dimensions."""
    every = list(range(len(item.shape)))
    if item.kind == "scan":
        rows = [d for d in every if d != item.axis] if item.lanes else every[: item.axis]
        return Group([item], {item.name: rows}, item.lanes)
    return Group([item], {item.name: every}, item.lanes)


def fused(reader: Reader, group: Group, more: Sequence[Item]) -> Group | None:
    """`group` with `more` items after its own, or None where they do not fit together."""
    items = [*group.items, *more]
    if len(items) > MAX_ITEMS:
        return None
    placed = {i.target for i in items if i.target}
    if any(i.kind == "scatter" or any(r.buffer in placed for r in i.reads) for i in items):
        return None
    producers = {i.name: i for i in items}
    return _as_lanes(reader, items, producers) or _as_rows(reader, items, producers)


def _as_lanes(reader: Reader, items: list[Item], producers: dict[str, Item]) -> Group | None:
    if not all(i.lanes and i.kind != "scan" for i in items):
        return None
    narrowest = min(items, key=lambda i: total(i.shape))
    dims: dict[str, list[int]] = {}
    for item in items:
        found = _lane_dims(reader, item, narrowest, producers, dims)
        if found is None:
            return None
        dims[item.name] = found
    if any(_crosses(i, narrowest, producers) or _repeats(reader, i, dims[i.name]) for i in items):
        return None
    inside = any(i.numel != narrowest.numel for i in items)
    if inside and total(narrowest.shape) < MIN_LANES and sum(i.work for i in items) > SMALL_WORK:
        return None
    return Group(items, dims, True)


def _repeats(reader: Reader, item: Item, lanes: Sequence[int]) -> bool:
    """Would each lane compute anew what is dear and the same for all of them? `tanh(a)[:, None] * exp(b)` in lanes
    over `b`, with the loop over `a` inside."""
    if len(lanes) == len(item.shape):
        return False
    ours = {s for d in lanes for s in sympy.sympify(item.at[d]).free_symbols}
    moves: dict[int, set[sympy.Symbol]] = {}
    for expr in walk(reader, [item.value]):
        place = expr.place
        moves[id(expr)] = set() if place is None else set(place.free_symbols)
        moves[id(expr)] = moves[id(expr)].union(*(moves[id(e)] for e in below_of(reader, expr)))
        dear = isinstance(expr, Apply) and SCALARS[expr.fn].cost >= DEAR
        if dear and moves[id(expr)] and not moves[id(expr)] & ours:
            return True
    return False


def _crosses(item: Item, rows: Item, producers: Mapping[str, Item]) -> bool:
    """Do two items that only read the same have shapes of which neither cuts the other's dimensions? The lanes of one
    would divide their position for the other."""
    if item.numel != rows.numel or any(r.buffer in producers for i in (item, rows) for r in i.reads):
        return False
    theirs, ours = (tuple(n for n in i.shape if n != 1) for i in (item, rows))
    return any(a1 - a0 > 1 and b1 - b0 > 1 for (a0, a1), (b0, b1) in reshape_blocks(theirs, ours)
               if theirs[a0:a1] != ours[b0:b1])


def _lane_dims(
    reader: Reader, item: Item, rows: Item, producers: Mapping[str, Item], known: Mapping[str, list[int]]
) -> list[int] | None:
    """Which dimensions of an item are the lanes, so that all it reads of the group is its own lane's."""
    if item.numel == rows.numel:
        choices = [list(range(len(item.shape)))]
    elif item.kind == "point":
        choices = _same_extents(item.shape, rows.shape)
    else:
        return None
    return next((c for c in choices if _lane_exact(reader, item, c, producers, known)), None)


def _same_extents(shape: tuple[sympy.Expr, ...], rows: tuple[sympy.Expr, ...]) -> list[list[int]]:
    """Choices of dimensions with the extents of `rows`, in order, the last dimension among them."""
    solid = [d for d, n in enumerate(shape) if n != 1]
    wanted = tuple(n for n in rows if n != 1)
    found = itertools.combinations(solid, len(wanted))
    return [list(c) for c in found if c and c[-1] == solid[-1] and tuple(shape[d] for d in c) == wanted]


def _lane_exact(
    reader: Reader, item: Item, dims: list[int], producers: Mapping[str, Item], known: Mapping[str, list[int]]
) -> bool:
    lane = flat([item.at[d] for d in dims], tuple(item.shape[d] for d in dims))
    for load in item.reads:
        if load.buffer not in producers:
            continue
        of, theirs = producers[load.buffer], known.get(load.buffer)
        if theirs is None:
            return False
        if len(theirs) == len(of.shape):
            if load.index != lane:
                return False
            continue
        at = unflatten(load.index, of.shape, reader.ranges)
        if flat([at[d] for d in theirs], tuple(of.shape[d] for d in theirs)) != lane:
            return False
    return True


def _as_rows(reader: Reader, items: list[Item], producers: dict[str, Item]) -> Group | None:
    if any(i.kind == "scan" and i.lanes for i in items):
        return None
    fewest = min(items, key=lambda i: len(i.row_counts))
    for rows in fewest.row_counts:
        if rows == 1 and any(i.numel != 1 for i in items):
            return None
        if not all(row_exact(reader, i, producers, rows) for i in items):
            continue
        if _wasteful(items, rows) or _lonely(reader, items, rows) or _loses_lanes(items, rows, producers):
            return None
        if hint(rows) < MIN_ROWS and sum(i.work for i in items) > SMALL_WORK:
            return None
        return Group(items, {i.name: _dims(i, rows) for i in items}, False)
    return None


def _dims(item: Item, rows: sympy.Expr) -> list[int]:
    found = cut(item, rows)
    return [] if found is None else list(found.dims)


def _wasteful(items: list[Item], rows: sympy.Expr) -> bool:
    """Rows so short that lanes inside them would stand empty, while items could use lanes."""
    inside = max(i.work for i in items) // max(hint(rows), 1)
    return inside < 4 and hint(rows) > 64


def _loses_lanes(items: list[Item], rows: sympy.Expr, producers: Mapping[str, Item]) -> bool:
    """Would folds that want lanes over all their dimensions be rows, for the sake of others of another shape, or of
    folds whose lanes are inside the row? They would gather down their columns."""
    whole = [i for i in items if i.numel == rows]
    inside = any(i.kind == "fold" and not i.lanes for i in whole)
    return any(i.lanes and i.kind == "fold" and (_crosses(i, whole[0], producers) or inside and i.is_deep)
               for i in whole)


def _lonely(reader: Reader, items: list[Item], rows: sympy.Expr) -> bool:
    """Values that occur once a row, and so without lanes, which cost more than the row's other work:
    kernels of their own compute them lane by lane."""
    if hint(rows) < MANY_ROWS:
        return False
    once = [i.value for i in items if i.kind == "point" and i.numel == rows]
    inside = sum(i.work for i in items if i.work > hint(rows)) // hint(rows)
    return bool(inside) and sum(cost(reader, v) for v in once) > inside + DEAR


class Ancestry:
    """Which units (groups, templates, XLA calls) come before which, as bit sets."""

    def __init__(self) -> None:
        self.before: list[int] = []

    def add(self, producers: Iterable[int]) -> int:
        """A new unit after `producers`; returns its number."""
        self.before.append(0)
        self.grow(len(self.before) - 1, producers)
        return len(self.before) - 1

    def reach(self, producers: Iterable[int]) -> int:
        """The units that come before anything that reads `producers`, those included."""
        mask = 0
        for p in producers:
            mask |= self.before[p] | (1 << p)
        return mask

    def grow(self, unit: int, producers: Iterable[int]) -> None:
        """`unit` now also reads `producers`; so do all that come after it."""
        mask = self.reach(producers) & ~(1 << unit)
        self.before[unit] |= mask
        bit = 1 << unit
        for k, known in enumerate(self.before):
            if known & bit:
                self.before[k] = known | mask

    def replace(self, old: int, new: int) -> None:
        """`old` has become part of `new`: all that came after one comes after both."""
        either = (1 << old) | (1 << new)
        own = (self.before[new] | self.before[old]) & ~either
        self.before[new], self.before[old] = own, 0
        for k, known in enumerate(self.before):
            if known & either and k not in (old, new):
                self.before[k] = (known | own | (1 << new)) & ~(1 << old)


def may_join(ancestry: Ancestry, unit: int, producers: Iterable[int]) -> bool:
    """Can a reader of `producers` join `unit` without a path that leaves it and comes back?"""
    others = [p for p in producers if p != unit]
    return not ancestry.reach(others) & (1 << unit)


def shares_work(group: Group, item: Item) -> bool:
    """Do they read a common buffer, so that one pass serves both?"""
    mine = {r.buffer for r in item.reads}
    return any(r.buffer in mine for i in group.items for r in i.reads)
