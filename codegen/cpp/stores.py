"""Stores in C++: contiguous lanes, scattered lanes, and read-modify-write lane after lane."""

from __future__ import annotations

from collections.abc import Sequence

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.expr import STRIDES, Scope, address, depends, emit, emit_lanes, near_stride, stride
from dynacomp.codegen.cpp.index import cpp_name
from dynacomp.lowering.kernel_ir.loops import Store

_MODES = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


def store(stmt: Store, scope: Scope) -> str:
    where = cpp_name(stmt.buffer)
    if not scope.var:
        return _scalar_store(stmt, scope, where)
    how, index = address(stmt.buffer, stmt.index, scope)
    value = emit_lanes(stmt.value, scope)
    if stmt.mode == "set" and stmt.mask is None:
        if how == "contiguous":
            return f"store({where} + {index}, {value}, lanes);"
        if (step := near_stride(stmt.buffer, stmt.index, scope)) is not None:
            return f"spread_to<{step}>({where} + {scope.index(stmt.index)}, lanes, {value});"
        return f"scatter({where}, {value}, lanes, [&](int l) {{ (void)l; return {index}; }});"
    if how == "contiguous":
        if stmt.mask is None or not depends(stmt.mask, scope):
            return _row_store(stmt, scope, f"{where} + {index}", value)
        if stmt.mode == "set":
            return f"masked_store({where} + {index}, {value}, lanes, {emit_lanes(stmt.mask, scope)});"
        index = f"({index}) + l"
    at_lane = f"[&](int l) {{ (void)l; return {index}; }}"
    mask = emit_lanes(stmt.mask, scope) if stmt.mask is not None else "true"
    if stmt.mode == "set":
        return f"masked_scatter({where}, {value}, lanes, {mask}, {at_lane});"
    return f"update({where}, {value}, lanes, {mask}, {at_lane}, {_op(stmt)});"


def woven(body: Sequence[object], scope: Scope) -> list[Store]:
    """The stores at the beginning of `body` that put their lanes between each other's, and leave no gap; or none."""
    first = body[0]
    if not scope.var or not isinstance(first, Store):
        return []
    step = stride(first.buffer, first.index, scope)
    found = [*of_class(Store, body[:step])] if step in STRIDES and step > 0 else []
    fits = [s.buffer == first.buffer and s.index - first.index == k and s.mode == "set" and s.mask is None
            and s.value.dtype != bool for k, s in enumerate(found)]
    return found if len(found) == step and all(fits) else []


def zip_store(stores: Sequence[Store], scope: Scope) -> str:
    """All of them in whole registers."""
    values = ", ".join(emit_lanes(s.value, scope) for s in stores)
    return f"zip({cpp_name(stores[0].buffer)} + {scope.index(stores[0].index)}, lanes, {values});"


def _row_store(stmt: Store, scope: Scope, target: str, value: str) -> str:
    """Lanes side by side in memory, all of them or none."""
    if stmt.mode != "set":
        value = f"{_MODES[stmt.mode]}(load({target}, lanes), {value})"
    guard = f"if ({emit(stmt.mask, scope).code}) " if stmt.mask is not None else ""
    return f"{guard}store({target}, {value}, lanes);"


def _op(stmt: Store) -> str:
    return f"[](auto a, auto b) {{ return {_MODES[stmt.mode]}(a, b); }}"


def _scalar_store(stmt: Store, scope: Scope, where: str) -> str:
    target = f"{where} + {scope.index(stmt.index)}"
    value = emit(stmt.value, scope).code
    if stmt.mode != "set":
        value = f"{_MODES[stmt.mode]}(load({target}), {value})"
    guard = f"if ({emit(stmt.mask, scope).code}) " if stmt.mask is not None else ""
    return f"{guard}store({target}, {value});"
