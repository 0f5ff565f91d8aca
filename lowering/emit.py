"""From a Group of items to a Kernel: loops, shared values, stores.

Three steps. *Rewrite*: every item's value moves to the kernel's loop variables; reads of other
items of the group become registers, scratch rows or plain loads. *Merge*: neighbouring loops that
all index expressions cross in one stride become one. *Bind*: values used twice, or that do
not change in the innermost loop, become `Let`s as far out as they can go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

from dynacomp.lowering.groups import Group
from dynacomp.lowering.indexing import ZERO, flat, rejoin
from dynacomp.lowering.items import Item
from dynacomp.lowering.loops import (
    Acc,
    Apply,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Ref,
    Scan,
    Stmt,
    Store,
    symbol,
)
from dynacomp.lowering.merging import joined, merged
from dynacomp.lowering.reader import INT64, Reader, index_of, walk
from dynacomp.lowering.stages import Layout, Stage, arrange, in_register, is_local, row_offset, row_size

Shapes = Mapping[str, tuple[tuple[sympy.Expr, ...], np.dtype]]
DEEPEST = 12
"""Expressions nested deeper than this are cut by a Let, so that source stays readable."""


@dataclass(eq=False)
class Scope:
    """The inside of one loop while it is being filled (the outermost scope has no loop)."""

    var: sympy.Symbol | None = None
    extent: sympy.Expr = ZERO
    stmts: list[Stmt] = field(default_factory=list)
    accs: list[Acc] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)


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


class Emitter:
    """The state of one emission; `emit` is the way in."""

    def __init__(self, reader: Reader, group: Group, external: set[str], shapes: Shapes) -> None:
        self.reader, self.group, self.external, self.shapes = reader, group, external, shapes
        self.params: dict[str, str] = {}
        self.seen: list[sympy.Expr] = []
        self.pending: list[tuple[int, Root]] = []
        self.layout: Layout = arrange(reader, group)
        self.items = {i.name: i for i in group.items}
        self.values: dict[sympy.Symbol, Expr] = {}  # position symbols of this kernel
        self.computed: dict[str, Expr] = {}
        self.locals: dict[str, Buffer] = {}
        self.acc_names = {i.name: f"a{k}" for k, i in enumerate(j for j in group.items if j.kind in ("fold", "scan"))}
        self.level: dict[sympy.Symbol, int] = {}
        self.bound: dict[int, Expr] = {}
        self.names = 0

    # rewrite

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
            root = Root(item, item.value, None, [], self.reader.index(item.store.index, INT64), item.store.mask)
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
        if isinstance(expr, Apply):
            return self.reader.intern(Apply(expr.fn, tuple(built[id(a)] for a in expr.args), expr.dtype))
        index = index_of(expr)
        if index is None:
            return expr
        for var in index.free_symbols - mapping.keys():
            if var in self.reader.values:
                mapping[var] = self.position(built[id(self.reader.values[var])], self.reader.ranges[var])
        if isinstance(expr, Index):
            return self.reader.intern(Index(expr.expr.xreplace(mapping), expr.dtype))
        assert isinstance(expr, Load)
        return self._read(expr, item, mapping, built)

    def position(self, value: Expr, extent: sympy.Expr) -> sympy.Expr:
        """The index symbol of this kernel for a computed position."""
        var = symbol(f"at_{id(value)}")
        self.values[var] = value
        self.layout.ranges[var] = extent
        return var

    def _read(
        self, load: Load, item: Item, mapping: Mapping[sympy.Expr, sympy.Expr], built: Mapping[int, Expr]
    ) -> Expr:
        masked = _masked(load, built)
        producer = self.items.get(load.buffer)
        if producer is None:
            return self.reader.intern(replace(load, index=load.index.xreplace(mapping), **masked))
        if not in_register(self.group, self.layout, item, load):
            buffer, index = self._kept(producer, load)
            return self.reader.intern(replace(load, buffer=buffer, index=index.xreplace(mapping), **masked))
        value = self._register(producer)
        return self.reader.apply("select", masked["mask"], value, masked["other"]) if masked else value

    def _register(self, producer: Item) -> Expr:
        if producer.kind == "point":
            return self.computed[producer.name]
        return self._folded(producer)

    def _folded(self, item: Item) -> Expr:
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

    # merge

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
        found = [i for e in walk(self, [e for r in roots for e in r.exprs]) if (i := index_of(e)) is not None]
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
        if isinstance(expr, Apply):
            return self.reader.intern(Apply(expr.fn, tuple(built[id(a)] for a in expr.args), expr.dtype))
        index = index_of(expr)
        if index is None:
            return expr
        for var in index.free_symbols & self.values.keys():
            changes[var] = self.position(built[id(self.values[var])], self.layout.ranges[var])
        if isinstance(expr, Index):
            return self.reader.intern(Index(rejoin(index.xreplace(changes)), expr.dtype))
        assert isinstance(expr, Load)
        masked = _masked(expr, built)
        return self.reader.intern(replace(expr, index=rejoin(index.xreplace(changes)), **masked))

    # bind

    def emit(self, name: str) -> tuple[Kernel, dict[str, str]]:
        """The Kernel, and the graph's buffer for each of the kernel's."""
        stages = self.roots()
        self.merge(stages)
        rows = self.layout.rows
        self.scopes = [Scope(), *(Scope(v, n) for v, n in rows)]
        self.level |= {v: k + 1 for k, (v, _) in enumerate(rows)}
        for stage, roots in zip(self.layout.stages, stages):
            self._stage(stage, roots)
        body = self._close_rows()
        written = {i.target or i.name for i in self.group.items if i.name in self.external}
        buffers = {b: Buffer(p, *self.shapes[b]) for b, p in self.params.items()}
        updated = {i.name for i in self.group.items if i.kind == "scatter"}
        inputs = tuple(b for name, b in buffers.items() if name not in written or name in updated)
        outputs = tuple(b for name, b in buffers.items() if name in written)
        kernel = Kernel(name, inputs, outputs, body, self._sizes((*inputs, *outputs)), tuple(self.locals.values()))
        return kernel, {p: b for b, p in self.params.items()}

    def _sizes(self, buffers: tuple[Buffer, ...]) -> tuple[sympy.Symbol, ...]:
        """The size symbols of the kernel: the positive ones (loop variables may be zero)."""
        found: set[sympy.Symbol] = set()
        extents = [n for _, n in self.layout.rows] + [n for st in self.layout.stages for _, n in st.loops]
        shapes = [b.shape for b in (*buffers, *self.locals.values())]
        for exprs in (*shapes, extents, self.seen):
            for e in exprs:
                found |= {v for v in e.free_symbols if v.is_positive}
        return tuple(sorted(found, key=str))

    def buffer(self, name: str) -> str:
        """The kernel's own name for a buffer of the graph: kernels that do the same look the same."""
        if name.startswith("%"):
            return name[1:]
        return self.params.setdefault(name, f"p{len(self.params)}")

    def _stage(self, stage: Stage, roots: list[Root]) -> None:
        base = len(self.layout.rows)
        del self.scopes[base + 1 :]
        self.scopes += [Scope(v, n) for v, n in stage.loops]
        self.level = {v: k for v, k in self.level.items() if k <= base}
        self.level |= {v: base + 1 + k for k, (v, _) in enumerate(stage.loops)}
        outside = dict(self.bound)
        finals = iter(self._bind([e for r in roots for e in r.exprs], len(self.scopes) - 1))
        for root in roots:
            root.put([next(finals) for _ in root.exprs])
            self._statements(stage, root, root.value)
        self._close_stage(stage)
        self.bound = {k: v for k, v in self.bound.items() if k in outside or self._is_row_level(v)}

    def _is_row_level(self, value: Expr) -> bool:
        return isinstance(value, Ref) and self.level.get(symbol(value.name), 10**6) <= len(self.layout.rows)

    def _statements(self, stage: Stage, root: Root, value: Expr) -> None:
        item, depth = root.item, len(self.layout.rows)
        if item.store is not None:
            self._scatter(root, item.store.mode)
            return
        if item.kind == "point":
            self.scopes[-1].stmts += self._store(root, value)
            return
        name = self.acc_names[item.name]
        assert item.fold is not None
        if item.kind == "scan":
            self.scopes[-1].scans.append(Scan(name, item.fold.fold, value, item.fold.dtype))
            self.scopes[-1].after += self._store(root, self._folded(item))
            return
        home = depth + len(stage.outer)
        self._fold(item, name, value, root.position, home)
        self.level[symbol(name)] = home
        self.pending.append((home, root))

    def _store(self, root: Root, value: Expr) -> list[Stmt]:
        self.seen += [i for _, i in root.stores]
        return [Store(self.buffer(b), i, value) for b, i in root.stores]

    def _scatter(self, root: Root, mode: str) -> None:
        target = root.target
        assert target is not None
        index = target.expr if isinstance(target, Index) else _index_of_value(target)
        self.scopes[-1].stmts.append(Store(self.buffer(root.item.name), index, root.value, mode, root.mask))

    def _fold(self, item: Item, name: str, value: Expr, position: sympy.Expr | None, home: int) -> None:
        """Carries a fold outwards: each loop folds what the loop inside it gave."""
        assert item.fold is not None
        how = item.fold
        loops = self.scopes[home + 1 :]
        if not loops:  # nothing to fold over: one element
            single = value if position is None else self.reader.index(ZERO, how.dtype)
            self.scopes[home].stmts.append(Let(name, single))
            return
        for k, scope in reversed(list(enumerate(loops))):
            own = name if k == 0 else f"{name}_{k}"
            scope.accs.append(Acc(own, how.fold, value, how.dtype, position))
            value = Ref(own, how.dtype)

    def _close_stage(self, stage: Stage) -> None:
        """Wraps the stage's scopes into Loops, storing folds where their loops have ended."""
        depth = len(self.layout.rows)
        vector = self._vector_loop(stage)
        pending, self.pending = self.pending, []
        for level in range(len(self.scopes) - 1, depth - 1, -1):
            for home, root in pending:
                if home == level:
                    self.scopes[-1].stmts += self._store(root, self._folded(root.item))
            if level > depth:
                scope = self.scopes.pop()
                self.scopes[-1].stmts.append(_loop(scope, level == vector, stage.reverse and bool(scope.scans)))

    def _vector_loop(self, stage: Stage) -> int:
        """The level of the loop whose iterations are lanes; -1 where the rows' last loop is."""
        depth = len(self.layout.rows)
        if (self.group.lanes and depth) or stage.kind in ("scan", "scatter"):
            return -1
        if stage.kind == "fold" and stage.lanes:
            return depth + len(stage.outer)
        return depth + len(stage.loops)

    def _close_rows(self) -> tuple[Stmt, ...]:
        for level in range(len(self.layout.rows), 0, -1):
            scope = self.scopes.pop()
            vector = self.group.lanes and level == len(self.layout.rows)
            self.scopes[-1].stmts.append(replace(_loop(scope, vector, False), parallel=True))
        return tuple(self.scopes[0].stmts)

    def _bind(self, roots: Sequence[Expr], depth: int) -> list[Expr]:
        """The values at `depth`, their shared and steady parts turned into Lets further out."""
        order = list(walk(self, roots))
        levels = {id(e): 0 for e in order}
        uses: dict[int, int] = {}
        widest: dict[int, int] = {}
        for root in roots:
            uses[id(root)] = uses.get(id(root), 0) + 1
            widest[id(root)] = depth
        for expr in order:
            levels[id(expr)] = self._level_of(expr, levels)
        for expr in order:
            for child in {id(c): c for c in _children(expr)}.values():
                uses[id(child)] = uses.get(id(child), 0) + 1
                widest[id(child)] = max(widest.get(id(child), 0), levels[id(expr)])
        as_index = {
            id(self.values[v])
            for e in order
            if (i := index_of(e)) is not None
            for v in i.free_symbols & self.values.keys()
        }
        nesting: dict[int, int] = {}
        for expr in order:
            if id(expr) in self.bound:
                continue
            new = self._final(expr)
            nesting[id(expr)] = 1 + max((nesting.get(id(c), 0) for c in _children(expr)), default=0)
            wanted = (
                uses.get(id(expr), 0) > 1 or widest.get(id(expr), 0) > levels[id(expr)] or (nesting[id(expr)] > DEEPEST)
            )
            if id(expr) in as_index or (wanted and not _is_trivial(expr)):
                new, nesting[id(expr)] = self._let(new, levels[id(expr)]), 0
            self.bound[id(expr)] = new
        return [self.bound[id(r)] for r in roots]

    def _let(self, value: Expr, level: int) -> Expr:
        if isinstance(value, Ref):
            return value
        name = f"t{self.names}"
        self.names += 1
        self.level[symbol(name)] = level
        self.scopes[level].stmts.append(Let(name, value))
        return Ref(name, value.dtype)

    def _level_of(self, expr: Expr, levels: Mapping[int, int]) -> int:
        """The innermost loop that a value depends on."""
        if isinstance(expr, Ref):
            return self.level.get(symbol(expr.name), len(self.layout.rows))
        level = max((levels[id(c)] for c in _children(expr)), default=0)
        index = index_of(expr)
        if index is None:
            return level
        for var in index.free_symbols:
            inside = levels[id(self.values[var])] if var in self.values else self.level.get(var, 0)
            level = max(level, inside)
        if isinstance(expr, Load) and (expr.buffer in self.items or expr.buffer.startswith("%")):
            level = max(level, len(self.layout.rows))
        return level

    def _final(self, expr: Expr) -> Expr:
        """The expression over what has been bound already."""
        if isinstance(expr, Apply):
            return Apply(expr.fn, tuple(self.bound[id(a)] for a in expr.args), expr.dtype)
        index = index_of(expr)
        if index is None:
            return expr
        names = {}
        for var in index.free_symbols & self.values.keys():
            ref = self.bound[id(self.values[var])]
            names[var] = _index_of_value(ref)
        self.seen.append(index)
        if isinstance(expr, Index):
            return Index(index.xreplace(names), expr.dtype)
        assert isinstance(expr, Load)
        masked = _masked(expr, self.bound)
        return replace(expr, buffer=self.buffer(expr.buffer), index=index.xreplace(names), **masked)


def _masked(load: Load, built: Mapping[int, Expr]) -> dict[str, Any]:
    """What `replace` takes to give a Load the rewritten mask and other value that `built` has of its own."""
    return {} if load.mask is None else {"mask": built[id(load.mask)], "other": built[id(load.other)]}


def _children(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Apply):
        return expr.args
    if not isinstance(expr, Load) or expr.mask is None:
        return ()
    assert expr.other is not None
    return expr.mask, expr.other


def _index_of_value(value: Expr) -> sympy.Expr:
    """The index expression that is a bound value: a Let's name, or a number."""
    if isinstance(value, Ref):
        return symbol(value.name)
    assert isinstance(value, Const)
    return sympy.Integer(value.value)


def _is_trivial(expr: Expr) -> bool:
    return isinstance(expr, (Const, Ref, Index))


def _has_positions(stage: Stage) -> bool:
    return any(i.fold is not None and i.fold.position is not None for i in stage.items)


def _loop(scope: Scope, vector: bool, reverse: bool) -> Loop:
    assert scope.var is not None
    return Loop(
        scope.var,
        scope.extent,
        tuple(scope.stmts),
        tuple(scope.accs),
        tuple(scope.scans),
        tuple(scope.after),
        vector=vector,
        reverse=reverse,
    )
