"""Stores in C++: contiguous lanes, scattered lanes, and read-modify-write lane after lane."""

from __future__ import annotations

from typing import TypeGuard

from dynacomp.codegen.cpp.expr import Scope, address, depends, emit, emit_lanes, stride
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


def zips(second: object, first: Store, scope: Scope) -> TypeGuard[Store]:
    """Do two stores put their lanes next to each other, those of one between those of the other?"""
    if not (isinstance(second, Store) and scope.var and first.buffer == second.buffer):
        return False
    plain = all(s.mode == "set" and s.mask is None and s.value.dtype != bool for s in (first, second))
    return plain and second.index - first.index == 1 and stride(first.buffer, first.index, scope) == 2


def zip_store(first: Store, second: Store, scope: Scope) -> str:
    """Both in whole registers."""
    values = f"{emit_lanes(first.value, scope)}, {emit_lanes(second.value, scope)}"
    return f"zip({cpp_name(first.buffer)} + {scope.index(first.index)}, {values}, lanes);"


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
