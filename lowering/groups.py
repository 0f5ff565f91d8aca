"""Which Items share a kernel.

A Group runs its items inside common row loops. Two shapes of group:

    lanes   the rows are all dimensions of every item; the last row loop is the vector loop.
            Elementwise items, column reductions. Items meet at the very same position.
    rows    the rows are a prefix; each item loops over the rest inside (softmax: the rows are the
            rows). An item may read what another wrote in the same row, wherever in the row.

An item joins a group when every value it reads from the group lies at its own position (lanes) or
in its own row (rows), and when no path leaves the group and comes back.

    before:  max -> sub, exp -> sum -> div          four realised nodes
    after:   one Group, rows = all but the last dimension
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from dynacomp.lowering.indexing import ONE, divmod_index, flat, hint, product, total
from dynacomp.lowering.items import Item
from dynacomp.lowering.reader import Reader

MIN_ROWS = 8
"""Fewer rows than this do not keep the threads busy: such items fuse only when they are small."""
SMALL_WORK = 1 << 14


@dataclass(eq=False)
class Group:
    """Items that will be one kernel, in order. rows: the number of row positions (a product);
    lanes: see the module's docstring."""

    items: list[Item]
    rows: sympy.Expr
    lanes: bool
    number: int = 0
    names: set[str] = field(default_factory=set)


def row_dims(item: Item, rows: sympy.Expr) -> int | None:
    """How many leading dimensions make up `rows` positions; None where none do.

    A scan's rows end before its axis. Trailing dimensions of size 1 stay inside the row.
    """
    limit = item.axis if item.kind == "scan" else len(item.shape)
    count = ONE
    for k in range(limit + 1):
        if count == rows:
            return k
        if k < limit:
            count = count * item.shape[k]
    return None


def lane_rows(item: Item) -> sympy.Expr:
    """The number of positions over which an item's lanes run: all but a scan's own axis."""
    if item.kind != "scan":
        return item.numel
    return product((*item.shape[:item.axis], *item.shape[item.axis + 1:]))


def prefix_products(item: Item) -> list[sympy.Expr]:
    """The candidate numbers of rows of an item, most first, without repetitions."""
    limit = item.axis if item.kind == "scan" else len(item.shape)
    found: list[sympy.Expr] = []
    for k in range(limit, -1, -1):
        count = product(item.shape[:k])
        if count not in found:
            found.append(count)
    return found


def row_exact(reader: Reader, item: Item, producers: Mapping[str, Item], rows: sympy.Expr) -> bool:
    """Does every read of a producer stay in the item's own row?"""
    dims = row_dims(item, rows)
    if dims is None:
        return False
    row = flat(item.at[:dims], item.shape[:dims])
    for load in item.reads:
        if load.buffer in producers:
            size = sympy.cancel(producers[load.buffer].numel / rows)
            if divmod_index(load.index, size, reader.ranges)[0] != row:
                return False
    return True


def lane_exact(item: Item, producers: Mapping[str, Item]) -> bool:
    """Does every read of a producer hit the item's own position?"""
    position = None
    for load in item.reads:
        if load.buffer in producers:
            if producers[load.buffer].kind == "scan" or item.kind == "scan":
                return False
            position = flat(item.at, item.shape) if position is None else position
            if load.index != position:
                return False
    return True


def alone(item: Item) -> Group:
    """A group of one: lanes where the item wants them, else rows over its result dimensions."""
    if item.lanes:
        return Group([item], lane_rows(item), True, names={item.name})
    return Group([item], prefix_products(item)[0], False, names={item.name})


def fused(reader: Reader, group: Group, more: Sequence[Item]) -> Group | None:
    """`group` with `more` items after its own, or None where they do not fit together."""
    items = [*group.items, *more]
    producers = {i.name: i for i in items}
    return _as_lanes(items, producers) or _as_rows(reader, items, producers)


def _as_lanes(items: list[Item], producers: dict[str, Item]) -> Group | None:
    rows = lane_rows(items[0])
    if len(items) > 1 and any(i.kind == "scan" for i in items):
        return None
    if not all(i.lanes and lane_rows(i) == rows and lane_exact(i, producers) for i in items):
        return None
    return Group(items, rows, True, names=set(producers))


def _as_rows(reader: Reader, items: list[Item], producers: dict[str, Item]) -> Group | None:
    if any(i.kind == "scan" and i.lanes for i in items):
        return None
    fewest = min(items, key=lambda i: len(prefix_products(i)))
    for rows in prefix_products(fewest):
        if rows == 1 and any(i.numel != 1 for i in items):
            return None
        if not all(row_exact(reader, i, producers, rows) for i in items):
            continue
        if hint(rows) >= MIN_ROWS or sum(i.work for i in items) <= SMALL_WORK:
            return None if _wasteful(items, rows) else Group(items, rows, False, names=set(producers))
        return None
    return None


def _wasteful(items: list[Item], rows: sympy.Expr) -> bool:
    """Rows so short that lanes inside them would stand empty, while items could use lanes."""
    inside = max(i.work for i in items) // max(hint(rows), 1)
    return inside < 4 and hint(rows) > 64


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


def is_small(item: Item) -> bool:
    return total(item.shape) <= SMALL_WORK
