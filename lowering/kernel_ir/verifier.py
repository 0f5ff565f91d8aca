"""Checks that a Kernel is well formed; run after every step that makes one, under test.

names      every Ref, buffer and index symbol is defined before its use, in scope; Lets, folds
           and scans have names of their own
dtypes     every expression has the dtype that its parts imply; loads and stores have their buffer's
loops      no fold leaves a parallel loop; at most one vector loop on a path; scans are serial
stores     outputs and locals only; every output is stored to
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import Acc, Apply, Const, Expr, Index, Kernel, Let, Load, Loop, Ref, Stmt, Store
from dynacomp.lowering.kernel_ir.printer import expr_text
from dynacomp.lowering.kernel_ir.scalars import SCALARS, kind

FOLDS = ("sum", "prod", "max", "min", "any", "all", "xor", "argmax", "argmin")
MODES = ("set", "add", "min", "max", "mul")


class KernelError(ValueError):
    """A Kernel that breaks a rule: what, where, in which kernel."""


@dataclass
class _Scope:
    """What is visible: value dtypes by name, index symbols, the loops outside."""

    kernel: Kernel
    buffers: dict[str, np.dtype]
    writable: set[str]
    values: dict[str, np.dtype]
    symbols: set[str]
    made: set[str]
    stored: set[str]
    vector: bool = False
    loops: list[str] = field(default_factory=list)

    def inside(self) -> _Scope:
        return _Scope(
            self.kernel,
            self.buffers,
            self.writable,
            dict(self.values),
            set(self.symbols),
            self.made,
            self.stored,
            self.vector,
            list(self.loops),
        )


def verify(kernel: Kernel) -> Kernel:
    """`kernel` itself; raises KernelError when it breaks a rule of the module's docstring."""
    buffers = {b.name: b.dtype for b in (*kernel.inputs, *kernel.outputs, *kernel.locals)}
    outputs = {b.name for b in kernel.outputs}
    scope = _Scope(
        kernel, buffers, outputs | {b.name for b in kernel.locals}, {}, {s.name for s in kernel.sizes}, set(), set()
    )
    for buffer in (*kernel.inputs, *kernel.outputs, *kernel.locals):
        for dim in buffer.shape:
            _index(scope, dim)
    _block(scope, kernel.body)
    _require(outputs <= scope.stored, scope, f"outputs never stored: {sorted(outputs - scope.stored)}")
    return kernel


def _require(holds: bool, scope: _Scope, what: str) -> None:
    if not holds:
        raise KernelError(f"kernel {scope.kernel.name}, in loops {'/'.join(scope.loops) or '-'}: {what}")


def _block(scope: _Scope, stmts: Sequence[Stmt]) -> None:
    for s in stmts:
        match s:
            case Let(name, value):
                _expr(scope, value)
                _define(scope, name, value.dtype)
            case Store():
                _store(scope, s)
            case Loop():
                _loop(scope, s)


def _define(scope: _Scope, name: str, dtype: np.dtype) -> None:
    _require(name not in scope.made, scope, f"the name {name!r} is made twice")
    scope.made.add(name)
    scope.values[name] = dtype
    if kind(dtype) in ("i", "u"):
        scope.symbols.add(name)


def _store(scope: _Scope, store: Store) -> None:
    _require(store.buffer in scope.writable, scope, f"store to {store.buffer!r}, which is no output or local")
    _require(store.mode in MODES, scope, f"store mode {store.mode!r}")
    _index(scope, store.index)
    _expr(scope, store.value)
    if store.mask is not None:
        _expr(scope, store.mask)
    wanted = scope.buffers[store.buffer]
    _require(store.value.dtype == wanted, scope, f"{store.value.dtype} stored to {store.buffer}, which holds {wanted}")
    scope.stored.add(store.buffer)


def _loop(scope: _Scope, loop: Loop) -> None:
    _require(not (loop.parallel and loop.folds), scope, f"folds leave the parallel loop {loop.var}")
    _require(not (loop.vector and loop.scans), scope, f"scans in the vector loop {loop.var}")
    _require(not (loop.vector and scope.vector), scope, f"vector loop {loop.var} inside another")
    _require(not loop.after or bool(loop.scans), scope, f"`after` without scans in loop {loop.var}")
    _index(scope, loop.extent)
    inner = scope.inside()
    inner.vector = scope.vector or loop.vector
    inner.loops.append(str(loop.var))
    inner.symbols.add(loop.var.name)
    _block(inner, loop.body)
    for fold in loop.folds:
        _require(fold.fold in FOLDS, inner, f"fold {fold.fold!r}")
        _expr(inner, fold.value)
    for acc in loop.accs:
        _acc(inner, acc)
    for scan in loop.scans:
        _define(inner, scan.name, scan.dtype)
    _block(inner, loop.after)
    for acc in loop.accs:
        _define(scope, acc.name, acc.dtype)


def _acc(scope: _Scope, acc: Acc) -> None:
    _require(acc.is_arg == (acc.position is not None), scope, f"{acc.fold} with position {acc.position}")
    if acc.position is not None:
        _index(scope, acc.position)
    else:
        _require(acc.value.dtype == acc.dtype, scope, f"{acc.value.dtype} folded into {acc.dtype}")


def _index(scope: _Scope, expr: sympy.Expr) -> None:
    unknown = sorted(s.name for s in expr.free_symbols if s.name not in scope.symbols)
    _require(not unknown, scope, f"index {expr} uses {unknown}, which are not in scope")


def _expr(scope: _Scope, expr: Expr) -> None:
    match expr:
        case Ref(name, dtype):
            _require(scope.values.get(name) == dtype, scope, f"{name} as {dtype} is not in scope")
        case Index():
            _index(scope, expr.expr)
        case Load():
            _load(scope, expr)
        case Apply():
            _apply(scope, expr)
        case Const() if kind(expr.dtype):
            pass
        case _:
            _require(False, scope, f"no expression: {expr!r}")


def _load(scope: _Scope, load: Load) -> None:
    _require(scope.buffers.get(load.buffer) == load.dtype, scope, f"load of {load.buffer} as {load.dtype}")
    _index(scope, load.index)
    _require((load.mask is None) == (load.other is None), scope, f"half a mask: {expr_text(load)}")
    if load.mask is not None and load.other is not None:
        _expr(scope, load.mask)
        _expr(scope, load.other)
        _require(kind(load.mask.dtype) == "b" and load.other.dtype == load.dtype, scope, expr_text(load))


def _apply(scope: _Scope, expr: Apply) -> None:
    row = SCALARS.get(expr.fn)
    _require(row is not None, scope, f"unknown scalar function {expr.fn!r}")
    assert row is not None
    for a in expr.args:
        _expr(scope, a)
    same = expr.args[1:] if row.rule == "select" else expr.args
    fits = (
        len(expr.args) == row.arity
        and len({a.dtype for a in same}) == 1
        and all(kind(a.dtype) in row.kinds for a in same)
    )
    result = {"bool": np.dtype(bool), "free": expr.dtype}.get(row.rule, expr.args[-1].dtype)
    _require(fits and expr.dtype == result, scope, f"dtypes do not fit: {expr_text(expr)}")
