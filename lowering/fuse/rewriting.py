"""The values of a Group over the loops of one kernel: the first two steps of emission.

*Rewrite*: every item's value moves to the kernel's loop variables; reads of other items of the
group become registers, scratch rows or plain loads. *Merge*: neighbouring loops that all index
expressions cross in one stride become one. `lowering.fuse.emit` then binds and writes the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy

from dynacomp.lowering.fuse.groups import Group
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.fuse.merging import joined, merged
from dynacomp.lowering.fuse.stages import Layout, Stage, arrange, in_register, is_local, row_offset, row_size
from dynacomp.lowering.kernel_ir.loops import Buffer, Expr, Load, Ref, is_load
from dynacomp.lowering.rules.reader import Reader, walk
from dynacomp.lowering.sizes.indexing import flat, rejoin
from dynacomp.lowering.sizes.symbols import symbol


@dataclass(eq=False)
class Root:
    """A value of a stage and what becomes of it: stores (buffer, index), a fold, or a scatter (which
    stores at `target`, an Index, where `mask` holds)."""

    item: Item
    value: Expr
    position: sympy.Expr | None = None
    stores: list[tuple[str, sympy.Expr]] = field(default_factory=list)
    target: Expr | None = None
    mask: Expr | None = None

    @property
    def exprs(self) -> list[Expr]:
        """All expressions of the root: its value, and a scatter's target and mask."""
        return [e for e in (self.value, self.target, self.mask) if e is not None]

    def put(self, exprs: Sequence[Expr]) -> None:
        """The same expressions, rewritten."""
        fields = [f for f in ("value", "target", "mask") if getattr(self, f) is not None]
        for name, expr in zip(fields, exprs, strict=True):
            setattr(self, name, expr)

class Rewriter:
    """The values of one kernel; `roots` and then `merge` are the way in.

    `values` maps each symbol that stands for a computed position to the value computed, `locals`
    each item that is kept in a scratch row to its Buffer, `external` names what leaves the kernel.
    """

    def __init__(self, reader: Reader, group: Group, external: set[str]) -> None:
        self.reader, self.group, self.external = reader, group, external
        self.layout: Layout = arrange(group)
        self.items = {i.name: i for i in group.items}
        self.values: dict[sympy.Symbol, Expr] = {}
        self.computed: dict[str, Expr] = {}
        self.locals: dict[str, Buffer] = {}
        self.acc_names = {i.name: f"a{k}" for k, i in enumerate(j for j in group.items if j.kind in ("fold", "scan"))}

    def roots(self) -> list[list[Root]]:
        """The values of every stage in the kernel's variables, with what to do with them."""
        stages: list[list[Root]] = [[] for _ in self.layout.stages]
        for item in self.group.items:
            number = self.layout.stage_of[item.name]
            root = self._root(item)
            self.computed[item.name] = root.value
            stages[number].append(root)
        for root in (r for roots in stages for r in roots):
            root.stores = self._stores(root.item)
        return stages

    def _root(self, item: Item) -> Root:
        position = None
        if item.store is not None:
            root = Root(item, item.value, None, [], self.reader.place(item.store.index), item.store.mask)
            root.put(self.rewrite(item, root.exprs))
            return root
        if item.fold is not None and item.fold.position is not None:
            position = item.fold.position(item.inner).xreplace(self.layout.maps[item.name])
        return Root(item, self.rewrite(item, [item.value])[0], position)

    def _stores(self, item: Item) -> list[tuple[str, sympy.Expr]]:
        mapping = self.layout.maps[item.name]
        stores: list[tuple[str, sympy.Expr]] = []
        if item.kind == "scatter":
            return stores
        if item.name in self.external:
            place = flat(item.at, item.shape) if item.place is None else item.place
            stores.append((item.name if item.place is None else item.target, place.xreplace(mapping)))
        if item.name in self.locals:
            own = Load(item.name, flat(item.at, item.shape), item.dtype)
            offset = row_offset(self.reader, self.group, item, own)
            stores.append((f"%{self.locals[item.name].name}", offset.xreplace(mapping)))
        return stores

    def rewrite(self, item: Item, exprs: list[Expr]) -> list[Expr]:
        """The item's expressions over the kernel's loops."""
        mapping: dict[sympy.Expr, sympy.Expr] = dict(self.layout.maps[item.name])
        built: dict[int, Expr] = {}
        for expr in walk(self.reader, exprs):
            built[id(expr)] = self._rewritten(expr, item, mapping, built)
        return [built[id(e)] for e in exprs]

    def _rewritten(
        self, expr: Expr, item: Item, mapping: dict[sympy.Expr, sympy.Expr], built: Mapping[int, Expr]
    ) -> Expr:
        for var in (expr.place.free_symbols if expr.place is not None else set()) - mapping.keys():
            if var in self.reader.values:
                mapping[var] = self.position(built[id(self.reader.values[var])], self.reader.ranges[var])
        if is_load(expr):
            return self._read(expr, item, mapping, built)
        return self.reader.intern(expr.mapped(lambda e: built[id(e)], lambda index: index.xreplace(mapping)))

    def position(self, value: Expr, extent: sympy.Expr) -> sympy.Expr:
        """The index symbol of this kernel for a computed position."""
        var = symbol(f"at_{id(value)}")
        self.values[var] = value
        self.layout.ranges[var] = extent
        return var

    def _read(
        self, load: Load, item: Item, mapping: Mapping[sympy.Expr, sympy.Expr], built: Mapping[int, Expr]
    ) -> Expr:
        moved = load.mapped(lambda e: built[id(e)], lambda index: index.xreplace(mapping))
        producer = self.items.get(load.buffer)
        if producer is None:
            return self.reader.intern(moved)
        if not in_register(self.group, self.layout, item, load):
            buffer, index = self._kept(producer, load)
            return self.reader.intern(replace(moved, buffer=buffer, index=index.xreplace(mapping)))
        value = self._register(producer)
        if moved.mask is None or moved.other is None:
            return value
        return self.reader.apply("select", moved.mask, value, moved.other)

    def _register(self, producer: Item) -> Expr:
        if producer.kind == "point":
            return self.computed[producer.name]
        return self.folded(producer)

    def folded(self, item: Item) -> Expr:
        assert item.fold is not None
        ref = self.reader.intern(Ref(self.acc_names[item.name], item.fold.dtype))
        return self.reader.apply("convert", ref, dtype=item.dtype)

    def _kept(self, producer: Item, load: Load) -> tuple[str, sympy.Expr]:
        if not is_local(self.group, producer, producer.name in self.external):
            self.external.add(producer.name)
            return producer.name, load.index
        if producer.name not in self.locals:
            name = f"row{len(self.locals)}"
            self.locals[producer.name] = Buffer(name, (row_size(self.group, producer),), producer.dtype)
        return f"%{self.locals[producer.name].name}", row_offset(self.reader, self.group, producer, load)

    def merge(self, stages: list[list[Root]]) -> None:
        """Joins neighbouring loops wherever nothing tells them apart."""
        stages_indices = [self._indices(roots) for roots in stages]
        everything = [i for indices in stages_indices for i in indices]
        everything += [n for stage in self.layout.stages for _, n in stage.loops]
        rows, changes = merged(self.layout.rows, everything)
        self.layout.rows = rows
        for stage, indices in zip(self.layout.stages, stages_indices):
            mine = [i.xreplace(changes) for i in indices] if changes else indices
            stage.outer, outer = merged(stage.outer, mine)
            inner: dict[sympy.Symbol, sympy.Expr] = {}
            if stage.kind != "scan" and not _has_positions(stage):
                stage.inner, inner = merged(stage.inner, mine)
            if stage.lanes and stage.kind == "fold" and not self.group.lanes:
                mine = [i.xreplace({**outer, **inner}) for i in mine]
                stage.outer, short = joined(stage.outer, stage.inner, mine)
                outer |= short
            self._substitute(stages[self.layout.stages.index(stage)], {**changes, **outer, **inner})

    def _indices(self, roots: list[Root]) -> list[sympy.Expr]:
        found = [i for e in walk(self, [e for r in roots for e in r.exprs]) if (i := e.place) is not None]
        return [*found, *(index for r in roots for _, index in r.stores)]

    def _substitute(self, roots: list[Root], changes: Mapping[sympy.Symbol, sympy.Expr]) -> None:
        if not changes:
            return
        built: dict[int, Expr] = {}
        for expr in walk(self, [e for r in roots for e in r.exprs]):
            built[id(expr)] = self._substituted(expr, dict(changes), built)
        for root in roots:
            root.put([built[id(e)] for e in root.exprs])
            root.stores = [(b, rejoin(i.xreplace(changes))) for b, i in root.stores]

    def _substituted(self, expr: Expr, changes: dict[sympy.Symbol, sympy.Expr], built: Mapping[int, Expr]) -> Expr:
        def change(index: sympy.Expr) -> sympy.Expr:
            for var in index.free_symbols & self.values.keys():
                changes[var] = self.position(built[id(self.values[var])], self.layout.ranges[var])
            return rejoin(index.xreplace(changes))

        return self.reader.intern(expr.mapped(lambda e: built[id(e)], change))


def _has_positions(stage: Stage) -> bool:
    return any(i.fold is not None and i.fold.position is not None for i in stage.items)
