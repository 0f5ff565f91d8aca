"""Kernel expressions as C++: scalars outside a vector loop, lanes inside it.

A `Scope` says where an expression stands: which vector loop it is in, if any, and which names hold
lanes there. Whatever does not depend on the vector loop's variable stays scalar and is splat where
it meets lanes.

    load x[n*i + j]     load(x_ + i_*n_ + j_, lanes)       j the vector variable
    load x[i]           load(x_ + i_)                      the same for all lanes
    load x[n*j]         gather(x_, lanes, [&](int64_t l) { return n_*(j_ + l); })
    load x[n*i + k]     gather_at(x_ + n_*i_, lanes, k_)           k computed in lanes, x of known size
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.index import cpp_name, index_code, names_in, step_along
from dynacomp.codegen.cpp.known import Known, bounds, parted, reduced
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Expr, Index, Load, Loop, Ref
from dynacomp.lowering.sizes.indexing import FloorDiv
from dynacomp.lowering.sizes.symbols import symbol

_NAMES = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor", "not": "bit_not"}
# Their result is a half already when their arguments are.
_EXACT = frozenset({"neg", "abs", "sign", "max", "min", "select", "floor", "ceil", "round_even", "round_away",
                    "nextafter", "bitcast"})


NEAR = 2**30  # elements of a buffer between any two of which the distance fits 32 bits
FAR = 1 << 24  # elements between lanes whose offsets do not stand in 32 bits, whatever the register
STRIDES = (-1, 2, 3, 4)  # between lanes that are loaded as whole registers, see kernels/strides.h
STEADY = 1024  # how much more an index is divided by than it grows in a lane, where lanes mostly share what comes out


@dataclass(frozen=True)
class Scope:
    """Where code stands. `var`: the vector loop's variable around it, or ""; `width`: the bytes
    that a register spends on each lane; `few`: how many elements that loop has, where they are known to fill half
    of the widest register at most; `vectors`: names that hold lanes; `widened`: local buffers with
    one copy per lane; `numels`: how many elements buffers have, where that is known; `threaded`: inside a loop that is
    spread over threads; `suffix` tells the lanes of several interleaved iterations apart; `known`: see `known`."""

    var: str = ""
    width: int = 0
    few: int = 0
    vectors: frozenset[str] = frozenset()
    widened: frozenset[str] = frozenset()
    numels: Mapping[str, int] = field(default_factory=dict)
    threaded: bool = False
    suffix: str = ""
    known: Known = field(default=Known())

    @property
    def lanes(self) -> str:
        """The number of lanes, in C++."""
        if not self.width:
            return "1"
        return f"lanes_for<{self.width}, {self.few}>" if self.few else f"kVectorBytes / {self.width}"

    def having(self, *names: str) -> Scope:
        return replace(self, vectors=self.vectors | set(names))

    def inside(self, loop: Loop) -> Scope:
        """The Scope of a loop's body, as to where the loop's variable is."""
        known = self.known.within(loop.var.name, 0, int(loop.extent) - 1) if loop.extent.is_Integer else self.known
        return replace(self, known=known)

    def call(self, name: str) -> str:
        """The C++ name of a value."""
        return cpp_name(name) + (self.suffix if name in self.vectors or name == self.var else "")

    def index(self, expr: sympy.Expr | int) -> str:
        """An index expression in C++, for the first lane."""
        return index_code(expr, {n: self.call(n) for n in names_in(expr)} if self.suffix else None)

    def moves(self, expr: sympy.Expr | int) -> bool:
        """Does an index expression differ from lane to lane?"""
        return bool(self.var) and not names_in(expr).isdisjoint(self.vectors | {self.var})


@dataclass(frozen=True)
class Value:
    """C++ text, and whether it is lanes or a scalar."""

    code: str
    vector: bool


def depends(expr: Expr, scope: Scope) -> bool:
    """Does the value of `expr` differ from lane to lane?"""
    match expr:
        case Const():
            return False
        case Ref(name):
            return name in scope.vectors
        case Index(index):
            return scope.moves(index)
        case Load(_, index, _, mask, other):
            parts = [e for e in (mask, other) if e is not None]
            return (scope.moves(index) or expr.buffer in scope.widened
                    or any(depends(e, scope) for e in parts))
        case Apply(_, args):
            return any(depends(a, scope) for a in args)
    raise TypeError(f"not a Kernel expression: {expr!r}")


def emit(expr: Expr, scope: Scope) -> Value:
    """The C++ of `expr`: lanes where it depends on the vector loop, else a scalar."""
    vector = bool(scope.var) and depends(expr, scope)
    return Value(_EMIT[type(expr)](expr, scope, vector), vector)


def emit_lanes(expr: Expr, scope: Scope) -> str:
    """The same, always as lanes (as a scalar outside vector loops)."""
    value = emit(expr, scope)
    return value.code if value.vector or not scope.var else splat(value.code, expr.dtype, scope)


def splat(code: str, dtype: np.dtype, scope: Scope) -> str:
    """A scalar in every lane. Masks are as wide as a register divided by the lanes."""
    if dtype == bool:
        return f"splat_bool<{scope.width}, {scope.lanes}>({code})"
    return f"splat<{types.register(dtype)}, {scope.lanes}>({code})"


def _const(expr: Const, scope: Scope, vector: bool) -> str:
    return types.literal(expr.value, expr.dtype)


def _ref(expr: Ref, scope: Scope, vector: bool) -> str:
    return scope.call(expr.name)


def _index(expr: Index, scope: Scope, vector: bool) -> str:
    dtype = expr.dtype
    scalar = types.register(dtype)
    if not vector:
        return rounded(f"convert<{scalar}>((int64_t)({scope.index(expr.expr)}))", dtype)
    step = step_along(expr.expr, scope.var)
    if step is not None and dtype.kind in "iu" and names_in(expr.expr).isdisjoint(scope.vectors):
        return f"affine_lanes<{scalar}>(lanes, {scope.index(expr.expr)}, {index_code(step)})"
    body = f"convert<{scalar}>((int64_t)({index_code(expr.expr, lane_names(scope))}))"
    if dtype == bool:
        return f"nonzero(per_lane<int8_t>(lanes, [&](int l) {{ return (int8_t){body}; }}))"
    how = "steady_lanes" if dtype.kind in "iu" and _is_steady(expr.expr, scope) else "per_lane"
    return rounded(f"{how}<{scalar}>(lanes, [&](int l) {{ return {body}; }})", dtype)


def _is_steady(index: sympy.Expr, scope: Scope) -> bool:
    """Whether most registers hold one value of it in all lanes: it is divided by far more than it grows in a lane."""
    if not isinstance(index, FloorDiv) or not names_in(index).isdisjoint(scope.vectors):
        return False
    step, by = step_along(index.args[0], scope.var), index.args[1]
    return step is not None and step.is_Integer and by.is_Integer and by >= STEADY * abs(step)


def lane_names(scope: Scope) -> Mapping[str, str]:
    """What an index expression is called at lane `l`."""
    named = {name: f"(int64_t)at({scope.call(name)}, l)" for name in scope.vectors}
    return {**named, scope.var: f"({scope.call(scope.var)} + l)"}


def address(buffer: str, index: sympy.Expr, scope: Scope) -> tuple[str, str]:
    """How lanes lie in memory, ("uniform" | "contiguous" | "scattered"), and where: the index of the
    first lane, or for scattered lanes the index at lane `l`."""
    if buffer in scope.widened:
        if not scope.moves(index):
            return "contiguous", f"({scope.index(index)})*({scope.lanes})"
        return "scattered", f"({index_code(index, lane_names(scope))})*({scope.lanes}) + l"
    if not scope.moves(index):
        return "uniform", scope.index(index)
    if names_in(index).isdisjoint(scope.vectors) and step_along(index, scope.var) == 1:
        return "contiguous", scope.index(index)
    return "scattered", index_code(index, lane_names(scope))


def stride(buffer: str, index: sympy.Expr, scope: Scope) -> sympy.Expr | None:
    """How far apart lanes lie in memory, None where that differs."""
    plain = buffer not in scope.widened and names_in(index).isdisjoint(scope.vectors)
    return step_along(index, scope.var) if plain else None


def near_stride(buffer: str, index: sympy.Expr, scope: Scope) -> int | None:
    """The same where it is known now, and so small that offsets stand in 32 bits."""
    step = stride(buffer, index, scope)
    return int(step) if step is not None and step.is_Integer and abs(step) < FAR else None


def _load(expr: Load, scope: Scope, vector: bool) -> str:
    where = cpp_name(expr.buffer)
    if not vector:
        return _scalar_load(expr, scope, where)
    how, index = address(expr.buffer, expr.index, scope)
    if expr.mask is not None:
        return _masked_load(expr, scope, where, how, index)
    if how == "contiguous":
        return f"load({where} + {index}, lanes)"
    if (step := near_stride(expr.buffer, expr.index, scope)) is not None:
        name = "strided" if step in STRIDES and expr.dtype != bool else "spread"
        return f"{name}<{step}>({where} + {scope.index(expr.index)}, lanes)"
    if offsets := _offsets(expr, scope):
        return f"gather_at({where} + {offsets[0]}, lanes, {offsets[1]})"
    return f"gather({where}, lanes, [&](int l) {{ return {index}; }})"


def _offsets(expr: Load, scope: Scope) -> tuple[str, str] | None:
    """Where lanes that lie anywhere are: from which element on, and a register of offsets from there. They are computed
    in 32 bits, which wrap on the way; None where they do not fit, or are no sum of multiples of lanes. In a widened
    buffer each element is a register, in which a lane finds its own."""
    moving = names_in(expr.index) & (scope.vectors | {scope.var})
    if scope.numels.get(expr.buffer, NEAR) >= NEAR or not moving & scope.vectors:
        return None
    steps = {name: step_along(expr.index, name) for name in sorted(moving)}
    if not all(s is not None and s.is_Integer for s in steps.values()):
        return None
    rest = sympy.expand(expr.index - sum(s * symbol(name) for name, s in steps.items()))
    if names_in(rest) & moving:
        return None
    lanes = [f"affine_lanes<int32_t>(lanes, {scope.call(name)}, 1)" if name == scope.var
             else f"convert<int32_t>({scope.call(name)})" for name in steps]
    wide = f"*({scope.lanes})" if expr.buffer in scope.widened else ""
    offsets = [f"{code}*(int32_t)({s}{wide})" for code, s in zip(lanes, steps.values())]
    first = f"({scope.index(rest)}){wide}" if wide else scope.index(rest)
    return first, " + ".join([*offsets, "affine_lanes<int32_t>(lanes, 0, 1)"] if wide else offsets)


def _scalar_load(expr: Load, scope: Scope, where: str) -> str:
    plain = f"load({where} + {scope.index(expr.index)})"
    if expr.mask is None:
        return plain
    assert expr.other is not None
    mask, other = emit(expr.mask, scope).code, emit(expr.other, scope).code
    return f"({mask} ? {plain} : {other})"


def _masked_load(expr: Load, scope: Scope, where: str, how: str, index: str) -> str:
    assert expr.mask is not None and expr.other is not None
    other = emit_lanes(expr.other, scope)
    wanted = reduced(expr.mask, scope.known)
    if wanted.truth is not None:
        return emit_lanes(replace(expr, mask=None, other=None), scope) if wanted.truth else other
    mask = emit(wanted, scope).code  # a scalar mask stays one
    if how == "contiguous" and depends(wanted, scope) and _lies_inside(expr, scope):
        return f"select({mask}, load({where} + {index}, lanes), {other})"
    if how == "contiguous":
        return f"masked_load({where} + {index}, lanes, {mask}, {other})"
    if offsets := _offsets(expr, scope):
        return f"masked_gather_at({where} + {offsets[0]}, lanes, {mask}, {offsets[1]}, {other})"
    return f"masked_gather({where}, lanes, {mask}, [&](int l) {{ (void)l; return {index}; }}, {other})"


def _lies_inside(expr: Load, scope: Scope) -> bool:
    """Are all lanes of a load in its buffer, the masked ones too?"""
    first, last = bounds(expr.index, scope.known)
    return expr.buffer not in scope.widened and 0 <= first and last < scope.numels.get(expr.buffer, 0)


def _apply(expr: Apply, scope: Scope, vector: bool) -> str:
    if vector and expr.fn == "div" and _is_plain(expr.args[1]):
        return rounded(f"div_by({emit_lanes(expr.args[0], scope)}, {emit(expr.args[1], scope).code})", expr.dtype)
    if vector and expr.fn == "select" and expr.dtype != bool:
        test = reduced(expr.args[0], scope.known)
        if test.truth is not None:
            return emit_lanes(expr.args[1 if test.truth else 2], scope)
        first, second = parted(test, lambda part: depends(part, scope), scope.known)
        if first is not None:
            return _choice(expr, first, second, scope)
    args = [emit_lanes(a, scope) if vector else emit(a, scope).code for a in expr.args]
    if expr.fn in ("convert", "bitcast"):
        return _cast(expr, args[0])
    code = f"{_NAMES.get(expr.fn, expr.fn)}({', '.join(args)})"
    if expr.fn == "nextafter" and expr.dtype in types.ROUND:
        return f"nextafter_{types.storage(expr.dtype)}({', '.join(args)})"
    return code if expr.fn in _EXACT else rounded(code, expr.dtype)


def _choice(expr: Apply, test: Expr, lanes: Expr | None, scope: Scope) -> str:
    """A select whose condition, or a part of it, is the same for all lanes: only what is chosen is computed, and may
    count on it. `lanes`: the other part. It stays a branch (`DC_BRANCH`)."""
    yes, no = (replace(scope, known=scope.known.assuming(test, holds)) for holds in (True, False))
    chosen = expr.args[1] if lanes is None else replace(expr, args=(lanes, *expr.args[1:]))
    return f"({emit(test, scope).code} ? DC_BRANCH({emit_lanes(chosen, yes)}) : {emit_lanes(expr.args[2], no)})"


def _is_plain(expr: Expr) -> bool:
    """A constant by which one can divide as by a number that is neither huge nor tiny."""
    match expr:
        case Const(value, dtype) if dtype.kind not in "iub":
            return 2.0 ** -100 < abs(value) < 2.0 ** 100
    return False


def rounded(code: str, dtype: np.dtype) -> str:
    """`code`, rounded where `dtype` is a half type that computes as float."""
    return f"{types.ROUND[dtype]}({code})" if dtype in types.ROUND else code


def _cast(expr: Apply, code: str) -> str:
    source, target = expr.args[0].dtype, expr.dtype
    if expr.fn == "convert":
        if target == bool and source in types.ROUND:
            return f"nonzero_half({code})"
        return rounded(f"convert<{types.register(target)}>({code})", target) if source != target else code
    if source in types.ROUND:
        code = f"to_{types.storage(source)}({code})"
    if target in types.ROUND:
        return f"from_{types.storage(target)}(bitcast<uint16_t>({code}))"
    return f"bitcast<{types.register(target)}>({code})"


_EMIT: dict[type, Callable[[Any, Scope, bool], str]] = {
    Const: _const, Ref: _ref, Index: _index, Load: _load, Apply: _apply}
