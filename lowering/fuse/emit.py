"""From a Group of items to a Kernel: loops, shared values, stores.

Three steps; the first two, *rewrite* and *merge*, are in `lowering.fuse.rewriting`. The third is here:
*bind*. Values used twice, or that do not change in the innermost loop, become `Let`s as far out as
they can go, and the statements of each stage are written into the scopes of its loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy

from dynacomp.lowering.fuse.groups import Group
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.fuse.rewriting import Rewriter, Root
from dynacomp.lowering.fuse.stages import Layout, Stage
from dynacomp.lowering.kernel_ir.loops import (
    Acc,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Loop,
    Ref,
    Scan,
    Stmt,
    Store,
    is_load,
)
from dynacomp.lowering.rules.reader import Reader, walk
from dynacomp.lowering.sizes.indexing import ZERO
from dynacomp.lowering.sizes.symbols import symbol

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


class Emitter:
    """The state of one emission; `emit` is the way in."""

    def __init__(self, reader: Reader, group: Group, external: set[str], shapes: Shapes) -> None:
        self.reader, self.group, self.shapes = reader, group, shapes
        self.rewriter = Rewriter(reader, group, external)
        self.layout: Layout = self.rewriter.layout
        self.params: dict[str, str] = {}
        self.seen: list[sympy.Expr] = []
        self.pending: list[tuple[int, Root]] = []
        self.scopes: list[Scope] = []
        self.level: dict[sympy.Symbol, int] = {}
        self.bound: dict[int, Expr] = {}
        self.names = 0

    def emit(self, name: str) -> tuple[Kernel, dict[str, str]]:
        """The Kernel, and the graph's buffer for each of the kernel's."""
        stages = self.rewriter.roots()
        self.rewriter.merge(stages)
        rows = self.layout.rows
        self.scopes = [Scope(), *(Scope(v, n) for v, n in rows)]
        self.level |= {v: k + 1 for k, (v, _) in enumerate(rows)}
        for stage, roots in zip(self.layout.stages, stages):
            self._stage(stage, roots)
        body = self._close_rows()
        written = {i.target or i.name for i in self.group.items if i.name in self.rewriter.external}
        buffers = {b: Buffer(p, *self.shapes[b]).in_kernels for b, p in self.params.items()}
        updated = {i.name for i in self.group.items if i.kind == "scatter"}
        inputs = tuple(b for name, b in buffers.items() if name not in written or name in updated)
        outputs = tuple(b for name, b in buffers.items() if name in written)
        rows_kept = tuple(self.rewriter.locals.values())
        kernel = Kernel(name, inputs, outputs, body, self._sizes((*inputs, *outputs)), rows_kept)
        return kernel, {p: b for b, p in self.params.items()}

    def _sizes(self, buffers: tuple[Buffer, ...]) -> tuple[sympy.Symbol, ...]:
        """The size symbols of the kernel: the positive ones (loop variables may be zero)."""
        found: set[sympy.Symbol] = set()
        extents = [n for _, n in self.layout.rows] + [n for st in self.layout.stages for _, n in st.loops]
        shapes = [b.shape for b in (*buffers, *self.rewriter.locals.values())]
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
        several = [r.value for r in roots if len(r.stores) > 1]
        finals = iter(self._bind([e for r in roots for e in r.exprs], len(self.scopes) - 1, several))
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
        name = self.rewriter.acc_names[item.name]
        assert item.fold is not None
        if item.kind == "scan":
            self.scopes[-1].scans.append(Scan(name, item.fold.fold, value, item.fold.dtype))
            self.scopes[-1].after += self._store(root, self.rewriter.folded(item))
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
        index = _index_of_value(target)
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
                    self.scopes[-1].stmts += self._store(root, self.rewriter.folded(root.item))
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

    def _bind(self, roots: Sequence[Expr], depth: int, several: Sequence[Expr]) -> list[Expr]:
        """The values at `depth`, their shared and steady parts turned into Lets further out; those that are
        stored in `several` places count as shared."""
        order = list(walk(self.rewriter, roots))
        levels = {id(e): 0 for e in order}
        uses: dict[int, int] = {}
        widest: dict[int, int] = {}
        for root in (*roots, *several):
            uses[id(root)] = uses.get(id(root), 0) + 1
            widest[id(root)] = depth
        for expr in order:
            levels[id(expr)] = self._level_of(expr, levels)
        for expr in order:
            for child in {id(c): c for c in expr.children}.values():
                uses[id(child)] = uses.get(id(child), 0) + 1
                widest[id(child)] = max(widest.get(id(child), 0), levels[id(expr)])
        as_index = {
            id(self.rewriter.values[v])
            for e in order
            if (i := e.place) is not None
            for v in i.free_symbols & self.rewriter.values.keys()
        }
        nesting: dict[int, int] = {}
        for expr in order:
            if id(expr) in self.bound:
                continue
            new = self._final(expr)
            nesting[id(expr)] = 1 + max((nesting.get(id(c), 0) for c in expr.children), default=0)
            wanted = (
                uses.get(id(expr), 0) > 1 or widest.get(id(expr), 0) > levels[id(expr)] or (nesting[id(expr)] > DEEPEST)
            )
            if id(expr) in as_index or (wanted and not expr.is_bound):
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
        level = max((levels[id(c)] for c in expr.children), default=0)
        index = expr.place
        if index is None:
            return level
        for var in index.free_symbols:
            inside = levels[id(self.rewriter.values[var])] if var in self.rewriter.values else self.level.get(var, 0)
            level = max(level, inside)
        if is_load(expr) and (expr.buffer in self.rewriter.items or expr.buffer.startswith("%")):
            level = max(level, len(self.layout.rows))
        return level

    def _final(self, expr: Expr) -> Expr:
        """The expression over what has been bound already."""
        new = expr.mapped(lambda e: self.bound[id(e)], self._bound_index)
        return replace(new, buffer=self.buffer(new.buffer)) if is_load(new) else new

    def _bound_index(self, index: sympy.Expr) -> sympy.Expr:
        self.seen.append(index)
        values = self.rewriter.values
        found = index.free_symbols & values.keys()
        return index.xreplace({var: _index_of_value(self.bound[id(values[var])]) for var in found})


def _index_of_value(value: Expr) -> sympy.Expr:
    """The index expression that is a bound value: a Let's name, a number, or a position."""
    match value:
        case Ref(name):
            return symbol(name)
        case Index(position):
            return position
        case Const(number):
            return sympy.Integer(number)
    raise ValueError(f"{value!r} is not bound")

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
