"""What a kernel's loops ask for: lanes per register, scratch buffers, and the work that pays for threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import sympy

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.cost import cost
from dynacomp.codegen.cpp.index import cpp_name, index_code, names_in
from dynacomp.codegen.cpp.locals import Owners, contains, owners
from dynacomp.lowering.kernel_ir.loops import Buffer, Expr, Kernel, Loop, Store, below, folds, inner_loops

STACK_BYTES = 16_384
CYCLES_PER_THREAD = 30_000  # below this much work a second thread costs more than it saves

Lines = Iterator[str]


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


def value_widths(loop: Loop, unit: Unit) -> Iterator[int]:
    """Bytes of every value that a loop's body computes or stores."""
    for stmt in (*loop.body, *loop.after):
        if isinstance(stmt, Loop):
            yield from value_widths(stmt, unit)
            continue
        yield from _expr_widths(stmt.value)
        if isinstance(stmt, Store):
            yield types.register_bytes(unit.dtypes[stmt.buffer])
            yield from _expr_widths(stmt.mask) if stmt.mask is not None else ()
    for fold in folds(loop):
        yield types.register_bytes(fold.dtype)
        yield from _expr_widths(fold.value)


def _expr_widths(expr: Expr) -> Iterator[int]:
    return (types.register_bytes(e.dtype) for e in below([expr]))


def scratch(unit: Unit, loop: Loop | None) -> Lines:
    """The local buffers that belong to `loop` or to loops inside it (None: to the kernel): on the stack
    where they are small, else from the heap; without memory the kernel gives up (see `scratch`)."""
    for buffer in unit.locals:
        owner = unit.owners.get(buffer.name)
        if (owner is None) == (loop is None) and (loop is None or contains(loop, owner)):
            yield from _local(buffer, lane_width(owner, unit) if owner and owner.vector else 0)


def _local(buffer: Buffer, width: int) -> Lines:
    kind, name = types.storage(buffer.dtype), cpp_name(buffer.name)
    count = f"({index_code(buffer.numel)})" + (f"*(kVectorBytes / {width})" if width else "")
    numel = sympy.sympify(buffer.numel)
    if numel.is_Integer and int(numel) * buffer.dtype.itemsize * (64 if width else 1) <= STACK_BYTES:
        yield f"alignas(64) {kind} {name}[{count}];"
        return
    yield f"scratch<{kind}> {name}own({count});"
    yield f"{kind}* const {name} = {name}own.data;"
    yield f"if (!{name}) return;"


def grain(work: str) -> str:
    """Iterations worth a thread of their own, when one costs `work` cycles."""
    return f"grain_of({CYCLES_PER_THREAD}.0, {work})"


def work_of(loop: Loop, lanes: int) -> str:
    """The estimated cycles of one iteration of `loop`, as a C++ double; `lanes` iterations share them."""
    own = cost([s for s in loop.body if not isinstance(s, Loop)], loop.accs)
    parts = [f"{max(own / lanes, 0.05):.3f}"]
    for inner in inner_loops((*loop.body, *loop.after)):
        across = 8 if inner.vector and lanes == 1 else lanes
        moving = [v for v in inner.extent.free_symbols if not v.is_positive]
        first = inner.extent.xreplace(dict.fromkeys(moving, sympy.Integer(0)))  # as in the first iteration
        parts.append(f"(double)({index_code(first)})*({work_of(inner, across)})")
    return " + ".join(parts)
