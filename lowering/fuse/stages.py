"""Inside one kernel: which items share an inner loop, and where values live between loops.

A `Layout` gives a Group its loops: the row loops, and a list of `Stage`s that run one after another
in each row. Items with equal inner loops share a stage when each reads from the others at its own
position. What a later stage needs of an earlier one is kept

    in a register   folds without result dimensions of their own, and values without inner loops
    in a local      one row of the value (`Kernel.locals`), or, when rows are long, in its own buffer
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy

from dynacomp.lowering.fuse.groups import Group
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.kernel_ir.loops import Load
from dynacomp.lowering.rules.reader import Reader
from dynacomp.lowering.sizes.indexing import divmod_index, flat, hint, product, unflatten
from dynacomp.lowering.sizes.symbols import symbol

LONGEST_LOCAL = 1 << 14
"""Elements of a row that are still worth a scratch copy; longer rows are read back from memory."""

Loops = tuple[tuple[sympy.Symbol, sympy.Expr], ...]


@dataclass(eq=False)
class Stage:
    """Items under the same inner loops: `outer` over result dimensions, then `inner` (a fold's own,
    or a scan's axis). For elementwise items all loops are `outer` and `inner` may be a fold's."""

    outer: Loops
    inner: Loops
    kind: str
    items: list[Item] = field(default_factory=list)
    lanes: bool = False
    reverse: bool = False

    @property
    def loops(self) -> Loops:
        return self.outer + self.inner


@dataclass(eq=False)
class Layout:
    """The loops of a group: `rows`, then `stages`; `maps` take an item's variables to them;
    `stage_of` numbers the stage of each item; `kept` names items that need a row of scratch."""

    rows: Loops
    stages: list[Stage]
    maps: dict[str, dict[sympy.Symbol, sympy.Expr]]
    stage_of: dict[str, int]
    ranges: dict[sympy.Symbol, sympy.Expr]


def split(group: Group, item: Item) -> tuple[list[int], list[int]]:
    """Which dimensions of an item are rows, and which are loops inside."""
    rows = group.dims[item.name]
    return rows, [d for d in range(len(item.shape)) if d not in rows]


def arrange(group: Group) -> Layout:
    """Loops and stages for a group; see the module's docstring."""
    rows = _row_loops(group)
    layout = Layout(rows, [], {}, {}, dict(rows))
    for item in group.items:
        _place(group, layout, item)
    return layout


def _solid(item: Item, dims: list[int]) -> list[int]:
    return [d for d in dims if item.shape[d] != 1]


def _row_loops(group: Group) -> Loops:
    """The row loops: those of the item that splits the rows most finely."""
    shapes = [tuple(i.shape[d] for d in _solid(i, split(group, i)[0])) for i in group.items]
    finest = max(shapes, key=len)
    return tuple((symbol(f"i{k}"), n) for k, n in enumerate(finest))


def _place(group: Group, layout: Layout, item: Item) -> None:
    row, inside = split(group, item)
    mapping = _row_map(layout, item, row)
    outer, mapping = _inner_loops(layout, [(item.at[d], item.shape[d]) for d in _solid(item, inside)], 0, mapping)
    folded = [(v, n.xreplace(mapping)) for v, n in zip(item.inner, item.extents) if n != 1]
    inner, mapping = _inner_loops(layout, folded, len(outer), mapping)
    if item.kind == "scan":
        outer, inner = outer[:-1], outer[-1:]
    layout.ranges.update(outer + inner)
    layout.maps[item.name] = mapping
    stage = Stage(outer, inner, item.kind, lanes=item.lanes and bool(outer), reverse=item.reverse)
    layout.stage_of[item.name] = _join(group, layout, item, stage)


def _row_map(layout: Layout, item: Item, row: list[int]) -> dict[sympy.Symbol, sympy.Expr]:
    solid = _solid(item, row)
    extents = tuple(item.shape[d] for d in solid)
    if extents == tuple(n for _, n in layout.rows):
        values = tuple(v for v, _ in layout.rows)
    else:
        position = flat([v for v, _ in layout.rows], tuple(n for _, n in layout.rows))
        values = unflatten(position, extents, layout.ranges)
    return {item.at[d]: v for d, v in zip(solid, values)}


def _inner_loops(
    layout: Layout, dims: list[tuple[sympy.Expr, sympy.Expr]], depth: int, mapping: dict[sympy.Symbol, sympy.Expr]
) -> tuple[Loops, dict[sympy.Symbol, sympy.Expr]]:
    base = len(layout.rows) + depth
    loops = tuple((symbol(f"i{base + k}"), n) for k, (_, n) in enumerate(dims))
    return loops, mapping | {v: loop for (v, _), (loop, _) in zip(dims, loops)}


def _join(group: Group, layout: Layout, item: Item, stage: Stage) -> int:
    """The number of the first stage that can take the item; a new one where none can."""
    first = max(
        (
            layout.stage_of[r.buffer] + (not _same_point(group, layout, item, r))
            for r in item.reads
            if r.buffer in layout.stage_of
        ),
        default=0,
    )
    for number in range(first, len(layout.stages)):
        if _alike(layout.stages[number], stage):
            _enter(layout.stages[number], item, stage)
            return number
    layout.stages.append(stage)
    stage.items.append(item)
    return len(layout.stages) - 1


def _enter(there: Stage, item: Item, stage: Stage) -> None:
    """An elementwise stage that a fold enters becomes a fold's: its loops are the fold's own."""
    if there.kind == "point" and item.kind == "fold":
        there.outer, there.inner, there.kind, there.lanes = stage.outer, stage.inner, "fold", stage.lanes
    there.items.append(item)


def _alike(there: Stage, stage: Stage) -> bool:
    if there.loops != stage.loops or "scan" in (there.kind, stage.kind):
        return False
    if there.kind == stage.kind:
        return there.outer == stage.outer
    fold = there if there.kind == "fold" else stage
    return not fold.outer


def _same_point(group: Group, layout: Layout, item: Item, read: Load) -> bool:
    """Is a value of the group read at the very position where its stage computes it?"""
    producer = next(i for i in group.items if i.name == read.buffer)
    if producer.kind != "point":
        return False
    mine = read.index.xreplace(layout.maps[item.name])
    return mine == flat(producer.at, producer.shape).xreplace(layout.maps[producer.name])


def in_register(group: Group, layout: Layout, item: Item, read: Load) -> bool:
    """Can an item read a producer without going through memory? Lanes compute elementwise values
    again rather than keep them: there is no scratch for each lane."""
    producer = next(i for i in group.items if i.name == read.buffer)
    stage = layout.stage_of[item.name]
    own = layout.stages[layout.stage_of[producer.name]]
    if producer.kind == "scan":
        return False
    if group.lanes and own.loops and producer.kind == "point":
        return _same_point(group, layout, item, read)
    return layout.stage_of[producer.name] == stage or not (own.loops if producer.kind == "point" else own.outer)


def row_size(group: Group, item: Item) -> sympy.Expr:
    """The number of elements of an item in one row."""
    return product(tuple(item.shape[d] for d in split(group, item)[1]))


def is_local(group: Group, item: Item, external: bool) -> bool:
    """Keep the row in scratch (True), or read it back from the item's own buffer?"""
    size = row_size(group, item)
    if group.lanes:
        return False
    return not external or (size.is_Integer and hint(size) <= LONGEST_LOCAL)


def row_offset(reader: Reader, group: Group, producer: Item, read: Load) -> sympy.Expr:
    """Where in the producer's row a read lies."""
    return divmod_index(read.index, row_size(group, producer), reader.ranges)[1]
