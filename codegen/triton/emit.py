"""Writes one launch: the statements of the Kernel IR as lines of a `@triton.jit` function.

See `source` for how loops map to lanes and columns. The Emitter keeps the lines and what it learns on
the way (which loops were tiled); expressions are `expr`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.triton.expr import COL, LANE, Linear, Mask, Scope, Value, index, store, write
from dynacomp.codegen.triton.index import print_index, safe
from dynacomp.codegen.triton.launch import expressions, loaded, statements, stored
from dynacomp.codegen.triton.scalars import convert, number, register, spell, triton_type
from dynacomp.lowering.kernel_ir.loops import Acc, Kernel, Let, Load, Loop, Scan, Stmt, Store, inner_loops
from dynacomp.lowering.kernel_ir.scalars import kind
from dynacomp.lowering.sizes.symbols import symbol


class Emitter:
    """Writes the statements of one launch, line by line. `held` are the locals that stay in registers, where one tile
    is as wide as all tiled loops are long (None: it need not be)."""

    def __init__(self, kernel: Kernel, chain: tuple[Loop, ...], flat: bool, serial: bool, exact: bool,
                 held: frozenset[str] | None = None) -> None:
        self.chain, self.flat, self.exact, self.held = chain, flat, exact, held
        self.lanes = sympy.Mul(*(sympy.sympify(loop.extent) for loop in chain))
        self.lines: list[str] = []
        self.columns: list[sympy.Expr] = []
        self.strided = False
        self.indent = 1
        locals_ = {b.name: b.numel for b in kernel.locals}
        nonneg = {s.name for s in kernel.sizes} | {loop.var.name for loop in chain}
        axes = {loop.var.name: LANE for loop in chain}
        self.scope = Scope(axes, nonneg, {}, locals_, dict.fromkeys(held or ()), LANE, (Mask("inside", LANE),), flat,
                           serial, linear(chain))

    def put(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def prelude(self) -> Iterator[str]:
        """The lanes of this program, their mask, and their parallel loops' variables."""
        rows, columns = ("", "") if self.flat else ("[:, None]", "[None, :]")
        yield f"    lane = tl.program_id(0).to(IDX) * R + tl.arange(0, R){rows}"
        yield f"    inside = lane < {print_index(self.lanes)}"
        yield "    lane0 = lane * 0"
        if not self.flat:
            yield f"    column = tl.arange(0, C){columns}"
            yield "    col0 = column * 0"
        below = sympy.Integer(1)
        for loop in reversed(self.chain):
            part = "lane" if below == 1 else f"lane // ({print_index(below)})"
            whole = loop is self.chain[0]
            yield f"    {safe(loop.var.name)} = " + (part if whole else f"({part}) % ({print_index(loop.extent)})")
            below = below * loop.extent

    def shape(self, axes: int) -> str:
        return "[R]" if self.flat else "[R, C]" if axes & COL else "[R, 1]"

    def block(self, body: tuple[Stmt, ...], scope: Scope) -> None:
        """Statements in order, with a barrier where one meets what another thread wrote or reads."""
        written: set[str] = set()
        read: set[str] = set()
        for stmt in body:
            loads, stores = (names - (self.held or set()) for names in (loaded((stmt,)), stored((stmt,))))
            if written & (loads | stores) or read & stores:
                self.put("tl.debug_barrier()")
                written, read = set(), set()
            written |= stores
            read |= loads
            self.statement(stmt, scope)

    def statement(self, stmt: Stmt, scope: Scope) -> None:
        match stmt:
            case Loop():
                self.loop(stmt, scope)
            case Store(buffer, _, value) if buffer in scope.held:
                self.assign(f"{buffer}_held", write(value, scope))
                scope.held[buffer] = Value(safe(f"{buffer}_held"), self.scope.axes[f"{buffer}_held"])
            case Store():
                self.put(store(stmt, scope))
            case Let(name, value):
                self.assign(name, write(value, scope))

    def assign(self, name: str, value: Any) -> None:
        self.put(f"{safe(name)} = {value.text}")
        self.scope.axes[name] = value.axes

    def loop(self, loop: Loop, scope: Scope) -> None:
        free = not self.flat and not scope.full & COL
        if free and tiled(loop, self.exact):
            self.tiles(loop, scope)
        else:
            self.steps(loop, scope)

    def steps(self, loop: Loop, scope: Scope) -> None:
        """One iteration at a time; lanes whose own extent is shorter are masked."""
        extent = index(loop.extent, scope)
        var = self.named(loop, scope)
        bound = self.bound(var, extent)
        for fold in loop.folds:
            self.start(fold, safe(fold.name), scope.full)
        counter = f"{var}_up" if loop.reverse else var
        self.put(f"for {counter} in range(0, {bound}):")
        self.indent += 1
        if loop.reverse:
            self.put(f"{var} = {extent.text} - 1 - {counter}")
        inner = self.entered(loop, scope, extent.axes if loop.reverse else 0)
        guard = ""
        if extent.axes:
            guard = f"{var}_in"
            self.put(f"{guard} = ({var} >= 0) & ({var} < {extent.text})")
            inner = replace(inner, masks=(*scope.masks, Mask(guard, extent.axes)))
        if stored((loop,)) & loaded((loop,)):
            self.put("tl.debug_barrier()")
        self.block(loop.body, inner)
        for fold in loop.folds:
            self.fold(fold, safe(fold.name), guard, inner)
        self.block(loop.after, inner)
        self.close()

    def tiles(self, loop: Loop, scope: Scope) -> None:
        """C iterations at a time, side by side along COL; all of them, where a tile is as wide as that."""
        extent = index(loop.extent, scope)
        var = self.named(loop, scope)
        self.columns.append(sympy.sympify(loop.extent))
        self.strided |= _strided(loop)
        for acc in loop.accs:
            self.start(acc, f"{safe(acc.name)}_tile", COL)
        for scan in loop.scans:
            self.start(scan, f"{safe(scan.name)}_carry", LANE)
        if self.held is None:
            bound = self.bound(var, extent)
            self.put(f"for {var}_at in range(0, {bound}, C):")
            self.indent += 1
            first = f"(({bound} - 1) // C) * C - {var}_at" if loop.reverse else f"{var}_at"
            self.put(f"{var} = {first} + column")
        else:
            self.put(f"{var} = column")
        self.put(f"{var}_in = {var} < {extent.text}")
        inner = self.entered(loop, scope, COL)
        inner = replace(inner, full=scope.full | COL, masks=(*scope.masks, Mask(f"{var}_in", COL | extent.axes)))
        if self.held is None and stored((loop,)) & loaded((loop,)):
            self.put("tl.debug_barrier()")
        self.block(loop.body, inner)
        for acc in loop.accs:
            self.fold(acc, f"{safe(acc.name)}_tile", f"{var}_in", inner)
        for scan in loop.scans:
            self.scan_tile(scan, f"{var}_in", loop.reverse, inner)
        self.block(loop.after, inner)
        if self.held is None:
            self.close()
        for acc in loop.accs:
            self.finish(acc)

    def named(self, loop: Loop, scope: Scope) -> str:
        """The name of a loop's variable: its own, or one that nothing before it had."""
        taken = scope.axes
        names = (loop.var.name, *(f"{loop.var.name}_{n}" for n in range(2, len(taken) + 3)))
        name = next(n for n in names if n not in taken)
        scope.called[loop.var] = symbol(name)
        return safe(name)

    def bound(self, var: str, extent: Any) -> str:
        """The number of iterations of the longest lane."""
        if not extent.axes:
            return extent.text
        name = f"{var}_most"
        self.put(f"{name} = tl.reduce({extent.text} + lane0, None, lib.combine_max)")
        return name

    def entered(self, loop: Loop, scope: Scope, axes: int) -> Scope:
        name = scope.called[loop.var].name
        scope.axes[name] = axes
        scope.nonneg.add(name)
        return scope

    def close(self) -> None:
        """Ends an indented block; an empty one gets `pass`."""
        if self.lines[-1].endswith(":"):
            self.put("pass")
        self.indent -= 1

    def start(self, fold: Acc | Scan, name: str, axes: int) -> None:
        first = np.iinfo(fold.dtype).max if fold.fold in _ARG else identity(fold.fold, fold.dtype)
        self.put(f"{name} = {full(self.shape(axes), first, fold.dtype)}")
        if fold.fold in _ARG:
            best = _compared(fold.value.dtype)
            self.put(f"{name}_best = {full(self.shape(axes), identity(fold.fold, best), best)}")
        self.scope.axes[fold.name] = axes | LANE

    def fold(self, fold: Acc | Scan, name: str, guard: str, scope: Scope) -> None:
        """`name` = fold(name, value), where the iteration is inside its loop."""
        self.scope.axes[fold.name] = scope.full
        value = write(fold.value, scope).text
        if fold.fold in _ARG:
            self.arg_fold(fold, name, guard, value, scope)
            return
        value = convert(value, fold.value.dtype, fold.dtype)
        folded = spell(FOLDS[fold.fold], fold.dtype, fold.dtype, (name, value))
        self.put(f"{name} = tl.where({guard}, {folded}, {name})" if guard else f"{name} = {folded}")

    def arg_fold(self, fold: Any, name: str, guard: str, value: str, scope: Scope) -> None:
        new, place, take, best = (f"{name}_{part}" for part in ("new", "place", "take", "best"))
        self.put(f"{new} = {convert(value, fold.value.dtype, _compared(fold.value.dtype))}")
        self.put(f"{place} = tl.cast({index(fold.position, scope).text}, {triton_type(fold.dtype)})")
        self.put(f"{take} = lib.first_{fold.fold[3:]}({best}, {name}, {new}, {place})")
        if guard:
            self.put(f"{take} = {take} & {guard}")
        self.put(f"{best} = tl.where({take}, {new}, {best})")
        self.put(f"{name} = tl.where({take}, {place}, {name})")

    def scan_tile(self, scan: Scan, guard: str, reverse: bool, scope: Scope) -> None:
        name, combine = safe(scan.name), f"lib.combine_{scan.fold}"
        start = full(self.shape(COL), identity(scan.fold, scan.dtype), scan.dtype)
        value = convert(write(scan.value, scope).text, scan.value.dtype, scan.dtype)
        both = FOLDS[scan.fold], scan.dtype, scan.dtype
        self.put(f"{name}_tile = tl.where({guard}, {value}, {start})")
        self.put(f"{name}_run = tl.associative_scan({name}_tile, 1, {combine}, reverse={reverse})")
        self.put(f"{name} = {spell(*both, (f'{name}_carry', f'{name}_run'))}")
        total = f"tl.reduce({name}_tile, 1, {combine}, keep_dims=True)"
        self.put(f"{name}_carry = {spell(*both, (f'{name}_carry', total))}")
        self.scope.axes[scan.name] = scope.full

    def finish(self, acc: Acc) -> None:
        """Folds the columns of an accumulator into one."""
        name, tile = safe(acc.name), f"{safe(acc.name)}_tile"
        if acc.fold in _ARG:
            pair = f"({tile}_best, {tile})"
            self.put(f"{name}_best, {name} = tl.reduce({pair}, 1, lib.combine_{acc.fold}, keep_dims=True)")
        else:
            self.put(f"{name} = tl.reduce({tile}, 1, lib.combine_{acc.fold}, keep_dims=True)")
        self.scope.axes[acc.name] = LANE


FOLDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and", "xor": "xor"}
"""The scalar function of each fold."""

_ARG = ("argmax", "argmin")
_IDENTITIES = {"sum": 0, "prod": 1, "any": 0, "xor": 0}


def identity(fold: str, dtype: np.dtype) -> Any:
    """What a fold of `dtype` starts from; `all` starts from all ones."""
    if fold in _IDENTITIES:
        return _IDENTITIES[fold]
    low = fold in ("max", "argmax")
    if fold == "all" or dtype == np.bool_:
        return -1 if dtype.kind == "i" else np.iinfo(dtype).max if dtype.kind == "u" else not low
    if kind(dtype) == "f":
        return -np.inf if low else np.inf
    return np.iinfo(dtype).min if low else np.iinfo(dtype).max


def _compared(dtype: np.dtype) -> np.dtype:
    """The dtype in which argmax and argmin compare: registers, bool as int32."""
    return np.dtype(np.int32) if dtype == np.bool_ else register(dtype)


def full(shape: str, value: Any, dtype: np.dtype) -> str:
    """A block of one constant."""
    return f"tl.full({shape}, {number(value, dtype)}, {triton_type(register(dtype))})"


def linear(chain: tuple[Loop, ...]) -> Linear | None:
    if not chain:
        return None
    total = sympy.Integer(0)
    for loop in chain:
        total = total * loop.extent + loop.var
    return Linear(sympy.expand(total), chain[-1].var, frozenset(loop.var for loop in chain))


def _rounds(loop: Loop) -> bool:
    return any(kind(a.dtype) == "f" and a.fold in ("sum", "prod") for a in loop.accs)


def _strided(loop: Loop) -> bool:
    """True when no access of the loop is contiguous along it."""
    places = [place for s in statements((loop,)) for place in accesses(s)]
    touched = [sympy.expand(p).coeff(loop.var, 1) for p in places if loop.var in p.free_symbols]
    return bool(touched) and 1 not in touched


def accesses(stmt: Stmt) -> Iterator[Any]:
    """The index of every load and store of one statement."""
    yield from map(sympy.sympify, stmt.places if stmt.writes else ())
    yield from (sympy.sympify(e.index) for e in of_class(Load, expressions(stmt)))


def tiled(loop: Loop, exact: bool) -> bool:
    """Whether the iterations of a loop stand side by side where they can: those of a vector loop, of a fold alone (down
    a column, say, where the lanes are neighbours in memory), or of a running fold."""
    if exact and _rounds(loop):
        return False
    alone = bool(loop.accs) and not (loop.scans or loop.reverse or inner_loops(loop.inside) or stored((loop,)))
    return loop.vector or alone and not loop.times < FEW or scannable(loop, exact)


FEW = 8  # iterations that are as well done one after the other


def scannable(loop: Loop, exact: bool) -> bool:
    """True for a running fold that `tl.associative_scan` can do a tile at a time."""
    floats = any(kind(s.value.dtype) == "f" for s in loop.scans)
    plain = not inner_loops(loop.body + loop.after) and not loop.accs
    writes = all(s.mode == "set" and loop.var in s.index.free_symbols for s in of_class(Store, loop.after))
    pure = not any(s.writes for s in loop.body) and not stored(loop.after) & loaded((loop,))
    return bool(loop.scans) and plain and writes and pure and not (exact and floats)
