"""Runs a Kernel in NumPy: the oracle for everything that makes or compiles Kernels.

All iterations of a loop run at once: each open loop is an array axis (the outermost is axis 0), a
value made inside `k` loops is an array of at most `k` axes, folds reduce the last one. Iterations of
one loop must therefore not read what others store; `kernel_ir.verifier` and fusion see to it. Loads and
stores outside a buffer raise IndexError. Float sums add up in float64 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import (
    Acc,
    Apply,
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
)
from dynacomp.lowering.kernel_ir.scalars import evaluate, kind
from dynacomp.lowering.rules.reduce import identity
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod

_FOLDS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.bitwise_or,
    "all": np.bitwise_and,
    "xor": np.bitwise_xor,
}
_STORES: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass
class _State:
    """Where execution stands: buffers by name, values by name, the open loops, and which iterations
    of loops with unequal extents are real (`active`)."""

    buffers: dict[str, np.ndarray]
    env: dict[str, Any]
    scratch: Mapping[str, int]
    depth: int = 0
    lengths: tuple[int, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    active: Any = None
    locals: dict[str, np.ndarray] = field(default_factory=dict)


def run(kernel: Kernel, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> None:
    """Executes `kernel` on flat or shaped arrays by buffer name; outputs are written in place.

    `sizes` gives each symbolic size by name. Raises IndexError for an access outside a buffer and
    KeyError for a missing buffer or size.
    """
    env: dict[str, Any] = {s.name: sizes[s.name] for s in kernel.sizes} if sizes else {}
    scratch = {b.name: int(value_of(b.numel, env)) for b in kernel.locals}
    flat = {b.name: buffers[b.name].reshape(-1) for b in (*kernel.inputs, *kernel.outputs)}
    dtypes = {b.name: b.dtype for b in kernel.locals}
    state = _State(flat, env, scratch)
    state.locals = {n: np.zeros(0, t) for n, t in dtypes.items()}
    _block(kernel.body, state)


def value_of(expr: sympy.Expr, env: Mapping[str, Any]) -> Any:
    """An index expression's value; loop variables may be arrays."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return env[expr.name]
    args = [value_of(a, env) for a in expr.args]
    return _OPERATIONS[expr.func](*args)


_OPERATIONS: dict[Any, Callable[..., Any]] = {
    sympy.Add: lambda *a: sum(a[1:], a[0]),
    sympy.Mul: lambda *a: math.prod(a[1:], start=a[0]),
    sympy.Pow: lambda a, b: a**b,
    sympy.Max: lambda *a: np.maximum.reduce(np.broadcast_arrays(*a)),
    sympy.Min: lambda *a: np.minimum.reduce(np.broadcast_arrays(*a)),
    sympy.Mod: lambda a, b: a % b,
    sympy.floor: lambda a: np.floor(a).astype(np.int64),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}


def _lift(value: Any, depth: int) -> Any:
    array = np.asarray(value)
    return array.reshape(array.shape + (1,) * (depth - array.ndim)) if array.ndim else array


def _index(expr: sympy.Expr, state: _State) -> Any:
    names = {s.name: _lift(state.env[s.name], state.depth) for s in expr.free_symbols}
    return value_of(expr, {n: v if v.ndim else v.item() for n, v in names.items()})


def _eval(expr: Expr, state: _State) -> Any:
    match expr:
        case Const():
            return np.asarray(expr.value).astype(expr.dtype)
        case Ref():
            return _lift(state.env[expr.name], state.depth)
        case Index():
            return np.asarray(_index(expr.expr, state)).astype(expr.dtype)
        case Load():
            return _load(expr, state)
        case Apply():
            return evaluate(expr.fn, tuple(_eval(a, state) for a in expr.args), expr.dtype)


def _load(load: Load, state: _State) -> Any:
    buffer = _buffer(load.buffer, state)
    mask = None if load.mask is None else _eval(load.mask, state)
    at = _address(load.buffer, load.index, _both(mask, state.active), state)
    values = buffer[at] if buffer.size else np.zeros(np.shape(at), buffer.dtype)
    return values if mask is None or load.other is None else np.where(mask, values, _eval(load.other, state))


def _both(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else np.logical_and(a, b)


def _buffer(name: str, state: _State) -> np.ndarray:
    if name not in state.scratch:
        return state.buffers[name]
    need = state.scratch[name] * math.prod(n for _, n in state.rows)
    if state.locals[name].size != need:
        state.locals[name] = np.zeros(need, state.locals[name].dtype)
    return state.locals[name]


def _address(name: str, index: sympy.Expr, mask: Any, state: _State) -> Any:
    """Flat positions, checked; where `mask` is false, 0 (which is then not used)."""
    at = np.asarray(_index(index, state))
    size = state.scratch.get(name, state.buffers[name].size if name in state.buffers else 0)
    bad = (at < 0) | (at >= size)
    bad = bad if mask is None else bad & np.broadcast_to(mask, np.broadcast_shapes(bad.shape, np.shape(mask)))
    if np.any(bad):
        raise IndexError(f"{name}[{index}] reaches outside its {size} elements")
    at = at if mask is None else np.where(mask, at, 0)
    at = np.where((at < 0) | (at >= size), 0, at)
    for var, length in state.rows if name in state.scratch else ():
        at = at + size * _lift(state.env[var], state.depth)
        size *= length
    return at


def _block(stmts: tuple[Stmt, ...], state: _State) -> None:
    for stmt in stmts:
        match stmt:
            case Let(name, value):
                state.env[name] = _eval(value, state)
            case Store():
                _store(stmt, state)
            case Loop():
                _loop(stmt, state)


def _store(store: Store, state: _State) -> None:
    buffer = _buffer(store.buffer, state)
    mask = _both(None if store.mask is None else _eval(store.mask, state), state.active)
    at = _address(store.buffer, store.index, mask, state)
    value = _eval(store.value, state)
    at, value, mask = np.broadcast_arrays(at, value, True if mask is None else mask)
    full = np.broadcast_to(at, np.broadcast_shapes(at.shape, state.lengths)) if store.mode != "set" else at
    value, mask = np.broadcast_to(value, full.shape), np.broadcast_to(mask, full.shape)
    if store.mode == "set":
        buffer[full[mask]] = value[mask]
    else:
        _accumulate(buffer, full[mask], value[mask], _STORES[store.mode])


def _accumulate(buffer: np.ndarray, at: np.ndarray, value: np.ndarray, how: np.ufunc) -> None:
    wide = buffer.astype(np.float64) if kind(buffer.dtype) == "f" else buffer
    how.at(wide, at, value.astype(wide.dtype))
    buffer[...] = wide.astype(buffer.dtype)


def _loop(loop: Loop, state: _State) -> None:
    extent = np.asarray(_index(loop.extent, state))
    longest = int(extent.max()) if extent.size else 0
    counter = np.arange(longest)
    inner = replace(state, depth=state.depth + 1, lengths=(*state.lengths, longest))
    inner.env[loop.var.name] = counter.reshape((1,) * state.depth + (longest,))
    if extent.ndim:
        inner.active = _both(
            None if state.active is None else _lift(state.active, inner.depth),
            inner.env[loop.var.name] < _lift(extent, inner.depth),
        )
    elif state.active is not None:
        inner.active = _lift(state.active, inner.depth)
    if loop.parallel:
        inner.rows = (*state.rows, (loop.var.name, longest))
    _block(loop.body, inner)
    accs = {a.name: _fold(a, inner, longest) for a in loop.accs}
    for scan in loop.scans:
        inner.env[scan.name] = _scan(scan, inner, longest, loop.reverse)
    _block(loop.after, inner)
    state.env.update(accs)


def _full(value: Any, length: int, state: _State) -> np.ndarray:
    """`value` with all axes, the last one of the loop's length."""
    lifted = _lift(value, state.depth)
    lifted = lifted.reshape((1,) * (state.depth - lifted.ndim) + lifted.shape)
    return np.broadcast_to(lifted, (*lifted.shape[:-1], length))


def _fold(acc: Acc, state: _State, length: int) -> np.ndarray:
    value = np.asarray(_eval(acc.value, state))
    start = np.asarray(identity(acc.fold, value.dtype)).astype(value.dtype)
    if state.active is not None:
        value = np.where(state.active, value, start)
    value = _full(value, length, state)
    if acc.fold in ("argmax", "argmin"):
        return _first_best(acc, value, state, length)
    wide = value.astype(np.float64) if kind(value.dtype) == "f" else value
    total = _FOLDS[acc.fold].reduce(wide, axis=-1, initial=start.astype(wide.dtype), dtype=wide.dtype)
    return np.asarray(total).astype(acc.dtype)


def _first_best(acc: Acc, value: np.ndarray, state: _State, length: int) -> np.ndarray:
    assert acc.position is not None
    wide = value.astype(np.float64) if kind(value.dtype) == "f" else value
    best = np.argmax(wide, axis=-1) if acc.fold == "argmax" else np.argmin(wide, axis=-1)
    positions = _full(_index(acc.position, state), length, state)
    positions = np.broadcast_to(positions, value.shape)
    return np.take_along_axis(positions, best[..., None], -1)[..., 0].astype(acc.dtype)


def _scan(scan: Scan, state: _State, length: int, reverse: bool) -> np.ndarray:
    value = _full(_eval(scan.value, state), length, state)
    wide = value.astype(np.float64) if kind(value.dtype) == "f" else value
    turned = np.flip(wide, -1) if reverse else wide
    total = _FOLDS[scan.fold].accumulate(turned, axis=-1, dtype=turned.dtype)
    return (np.flip(total, -1) if reverse else total).astype(scan.dtype)
