"""Woven stores that do the same to neighbours in memory: an image's channels, say, each with a mean of its own.

    before:  zip(out + 3*i, lanes, sub(strided<3>(x + 3*i, lanes), splat(a)),
                                   sub(strided<3>(x + 3*i + 1, lanes), splat(b)), ...)
    after:   const cycle<float, 8, 3> cycle0(a, b, c);  // ahead of the loop
             zip_run<3>(out + 3*i, lanes, [&](int64_t at, auto lanes, auto turn) {
               return sub(load(x + 3*i + at, lanes), cycle0[turn]); })
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.expr import Scope, depends, emit, emit_lanes, stride
from dynacomp.codegen.cpp.index import cpp_name
from dynacomp.codegen.cpp.stores import woven
from dynacomp.lowering.kernel_ir.loops import Apply, Expr, Let, Load, Ref, Stmt, Store
from dynacomp.lowering.sizes.symbols import symbol

_AT = symbol("woven")


@dataclass(frozen=True)
class Run:
    """A statement as C++."""

    code: str


def with_runs(body: Sequence[Stmt], scope: Scope) -> tuple[list[str], Sequence[Stmt | Run]]:
    """The body of a vector loop with such stores as Runs, and the lines that they want ahead of the loop."""
    values = [*of_class(Let, body)]
    stores = body[len(values):]
    plain = not scope.suffix and all(s.writes for s in stores)
    ahead: list[str] = []
    made: list[Stmt | Run] = []
    at = len(values)
    for let in values:
        plain = plain and depends(let.value, scope)  # what is the same for all lanes may have no name ahead of the loop
        scope = scope.having(let.name)
    while plain and at < len(body):
        found = woven(body[at:], scope)
        run = _run(found, scope, ahead) if found else None
        made += [run] if run else body[at:at + (len(found) or 1)]
        at += len(found) or 1
    return ahead, [*values, *made] if ahead or any(of_class(Run, made)) else body


def _run(stores: Sequence[Store], scope: Scope, ahead: list[str]) -> Run | None:
    """The stores as one statement, or None where their values are not one expression of neighbours and scalars."""
    cycles: list[Sequence[Expr]] = []
    value = _common([s.value for s in stores], scope, cycles)
    if value is None:
        return None
    start = len(ahead)
    names = {f"cycle{k}": f"cycle{start + k}" for k in range(len(cycles))}
    ahead += [f"const cycle<{types.register(scalars[0].dtype)}, {scope.lanes}, {len(scalars)}> {name}"
              f"({', '.join(emit(s, scope).code for s in scalars)});" for name, scalars in zip(names.values(), cycles)]
    inside = replace(scope, var=_AT.name, vectors=frozenset(names))
    picked = " ".join(f"const auto {inside.call(k)} = {name}[turn];" for k, name in names.items())
    target = f"{cpp_name(stores[0].buffer)} + {scope.index(stores[0].index)}"
    head = f"[&]([[maybe_unused]] int64_t {cpp_name(_AT.name)}, auto lanes, [[maybe_unused]] auto turn)"
    return Run(f"zip_run<{len(stores)}>({target}, lanes, {head} __attribute__((always_inline)) "
               f"{{ {picked}{' ' if picked else ''}return {emit_lanes(value, inside)}; }});")


def _common(values: Sequence[Expr], scope: Scope, cycles: list[Sequence[Expr]]) -> Expr | None:
    """The one expression of which `values` are every so many lanes; scalars that differ go to `cycles`."""
    first = values[0]
    if not any(depends(v, scope) for v in values):
        if all(v == first for v in values):
            return first
        if first.dtype == bool or any(v.dtype != first.dtype for v in values):
            return None
        if values not in cycles:
            cycles.append(values)
        return Ref(f"cycle{cycles.index(values)}", first.dtype)
    match first:
        case Load():
            return _neighbours(values, scope)
        case Apply(fn, _, dtype):
            alike = [v for v in of_class(Apply, values) if (v.fn, v.dtype, len(v.args)) == (fn, dtype, len(first.args))]
            args = [_common(column, scope, cycles) for column in zip(*(v.args for v in alike))]
            known = tuple(a for a in args if a is not None)
            return replace(first, args=known) if len(alike) == len(values) and len(known) == len(args) else None
    return None


def _neighbours(values: Sequence[Expr], scope: Scope) -> Expr | None:
    loads = [v for v in of_class(Load, values) if v.mask is None and v.buffer not in scope.widened]
    if len(loads) < len(values) or stride(loads[0].buffer, loads[0].index, scope) != len(values):
        return None
    start, buffer = loads[0].index, loads[0].buffer
    alike = all(v.buffer == buffer and v.index - start == k for k, v in enumerate(loads))
    return replace(loads[0], index=start + _AT) if alike else None
