"""What a kernel's loops ask for: lanes per register, and scratch buffers.

A scratch buffer (a local of the kernel) belongs to the innermost parallel loop around all of its uses, or to the whole
kernel: each thread that runs iterations of that loop has one copy, and where that loop runs as lanes, each lane has
its own (element k of lane l lies at k * lanes + l).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.index import cpp_name, index_code, names_in
from dynacomp.lowering.kernel_ir.loops import Buffer, Expr, Kernel, Load, Loop, Stmt, below, inner_loops

STACK_BYTES = 16_384

Lines = Iterator[str]
Path = tuple[Loop, ...]
Owners = Mapping[str, Loop | None]


@dataclass(frozen=True)
class Unit:
    """What holds for a whole kernel: `exact` numerics, its scratch buffers and the loops that they belong
    to, the dtype of every buffer; `small`: neither threads nor lanes pay."""

    exact: bool
    locals: tuple[Buffer, ...]
    owners: Owners
    dtypes: dict[str, np.dtype]
    small: bool = False


def unit_of(kernel: Kernel, exact: bool) -> Unit:
    """The Unit of a kernel."""
    buffers = (*kernel.inputs, *kernel.outputs, *kernel.locals)
    return Unit(exact, kernel.locals, owners(kernel.body, [b.name for b in kernel.locals]),
                {b.name: np.dtype(b.dtype) for b in buffers})


def numels(kernel: Kernel) -> dict[str, int]:
    """How many elements a kernel's buffers have, where that is known."""
    found = {b.name: sympy.sympify(b.numel) for b in (*kernel.inputs, *kernel.outputs, *kernel.locals)}
    return {name: int(n) for name, n in found.items() if n.is_Integer}


def lane_width(loop: Loop, unit: Unit) -> int:
    """Bytes of a register for each lane of a vector loop: those of the widest value of its body.

    0 where it must run as a scalar loop: `exact` sums and products of floats keep their order.
    """
    ordered = any(a.fold in ("sum", "prod") and a.dtype.kind not in "biu" for a in loop.accs)
    if (unit.exact and ordered) or loop.scans or loop.reverse or _extents_move(loop):
        return 0
    return max(value_widths(loop, unit), default=4)


def _extents_move(loop: Loop) -> bool:
    inner = inner_loops((*loop.body, *loop.after))
    return any(loop.var.name in names_in(s.extent) or _extents_move(replace(s, var=loop.var)) for s in inner)


def value_widths(stmt: Stmt, unit: Unit) -> Iterator[int]:
    """Bytes of every value that a statement computes, folds or stores, and those inside."""
    for inner in stmt.inside:
        yield from value_widths(inner, unit)
    for expr in stmt.exprs:
        yield from _expr_widths(expr)
    yield from (types.register_bytes(unit.dtypes[name]) for name in stmt.writes)
    yield from (types.register_bytes(fold.dtype) for fold in stmt.folds)


def _expr_widths(expr: Expr) -> Iterator[int]:
    return (types.register_bytes(e.dtype) for e in below([expr]))


def scratch(unit: Unit, loop: Loop | None) -> Lines:
    """The local buffers that belong to `loop` or to loops inside it (None: to the kernel): on the stack
    where they are small, else from the heap; without memory the kernel gives up (see `scratch`)."""
    for buffer in unit.locals:
        owner = unit.owners.get(buffer.name)
        if (owner is None) == (loop is None) and (loop is None or contains(loop, owner)):
            copies = lane_width(owner, unit) if owner and owner.vector else 0
            yield from _local(buffer, copies, shared=loop is None and not unit.small)


def _local(buffer: Buffer, width: int, shared: bool) -> Lines:
    kind, name = types.storage(buffer.dtype), cpp_name(buffer.name)
    count = f"({index_code(buffer.numel)})" + (f"*(kVectorBytes / {width})" if width else "")
    numel = sympy.sympify(buffer.numel)
    if numel.is_Integer and int(numel) * buffer.dtype.itemsize * (64 if width else 1) <= STACK_BYTES:
        yield f"alignas(64) {kind} {name}{'own' * shared}[{count}];"
        if shared:  # what threads are given is copied for each (see `loops.BODY`): its place, not its values
            yield f"{kind}* const {name} = {name}own;"
        return
    yield f"scratch<{kind}> {name}own({count});"
    yield f"{kind}* const {name} = {name}own.data;"
    yield f"if (!{name}) return;"


def owners(body: Sequence[Stmt], names: Sequence[str]) -> dict[str, Loop | None]:
    """For each local, the parallel loop that it belongs to, or None for the kernel."""
    paths: dict[str, Path] = {}
    for name, path in _uses(body, ()):
        if name in names:
            paths[name] = _common(paths[name], path) if name in paths else path
    return {name: path[-1] if path else None for name, path in paths.items()}


def _common(a: Path, b: Path) -> Path:
    same = [x is y for x, y in zip(a, b)]
    return a[:same.index(False)] if False in same else a[:len(same)]


def _uses(body: Sequence[Stmt], path: Path) -> Iterator[tuple[str, Path]]:
    """(buffer, parallel loops around it) of every load and store."""
    for stmt in body:
        inner = (*path, *(loop for loop in inner_loops([stmt]) if loop.parallel))
        yield from ((name, inner) for name in (*loads(*stmt.exprs), *stmt.writes))
        yield from _uses(stmt.inside, inner)


def loads(*exprs: Expr) -> Iterator[str]:
    """The buffers that expressions load from."""
    return (e.buffer for e in of_class(Load, below(exprs)))


def contains(outer: Loop, inner: Loop | None) -> bool:
    """Is `inner` the loop `outer`, or somewhere inside it?"""
    return inner is outer or any(contains(loop, inner) for loop in inner_loops((*outer.body, *outer.after)))
