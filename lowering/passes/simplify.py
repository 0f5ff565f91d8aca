"""Algebra that changes no bit: one row per Op name, a function of the node that gives what to use
instead, or None.

Every row holds for all values. Floats leave little room: XLA flushes subnormals in arithmetic, so
that even `x * 1.0` is not `x`, and `x + 0.0` is 0.0 for x = -0.0. Nothing here reassociates: the rows
run in every numerics mode.

    no-ops       convert to the same dtype, reshape to the same shape, slice of everything, ...
    chains       reshape of reshape, broadcast of broadcast, transpose of transpose, convert of convert, ...
    identities   of integers and booleans: x*1, x+0, x|0, max(x, lowest); neg(neg(x)), select on a constant
    strength     x / 2**k  →  x * 2**-k
    pairs        the real part of a complex number made of two parts, and those of one put together again
    scalars      a broadcast scalar used by a pointwise Op is the scalar itself
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import is_aval
from dynacomp.capture.graph.graph import Builder, Graph, Node, is_node, node_at
from dynacomp.lowering.passes.core import append, emit, rebuild
from dynacomp.lowering.primitives.exact import evaluate
from dynacomp.lowering.primitives.ops import OPS, POINTWISE, is_call, op_kind

Row = Callable[[Node, Builder], Any]


def simplify(graph: Graph) -> Graph:
    """Apply the rows to every node, operands first."""
    return rebuild(graph, _rule)


def _rule(node: Node, builder: Builder) -> Any:
    if not op_kind(node):
        return None
    if op_kind(node) == POINTWISE:
        bare = replace(node, args=tuple(map(_scalar, node.args)))
        if any(of_class(Node, bare.args)):
            node = bare
        elif is_aval(node.aval) and node.aval.dtype.kind != "c":
            return _fill(bare, builder)
    found = _first(node, builder)
    return append(builder, node) if found is None else _settle(found, builder)


def _first(node: Node, builder: Builder) -> Any:
    """What the first row that applies gives, or None."""
    answers = (row(node, builder) for row in ROWS.get(node.target.name, ()))
    return next((a for a in answers if a is not None), None)


def _settle(value: Any, builder: Builder) -> Any:
    """Rows applied to what a row has just emitted, until none does."""
    fresh = lambda: value is builder.nodes[-1] and bool(op_kind(value))
    while fresh():
        if (better := _first(value, builder)) is None:
            return value
        value = better
    return value


def _scalar(arg: Any) -> Any:
    """The scalar that an operand is a broadcast of, else the operand."""
    return arg.args[0] if is_call(arg, "broadcast_in_dim") and isinstance(arg.args[0], np.generic) else arg


def _fill(node: Node, builder: Builder) -> Any:
    """A pointwise Op on scalars alone, broadcast: compute the one value."""
    value = evaluate(node.target, node.args, node.kwargs)[()]
    if not node.aval.shape:
        return value
    params = {"shape": node.aval.shape, "broadcast_dimensions": ()}
    return emit(builder, node, OPS["broadcast_in_dim"], (value,), params, node.aval)


def _same(node: Node, other: Any) -> Any:
    """`other` where it has the node's shape and dtype."""
    fits = (is_node(other) and is_aval(other.aval)
            and other.aval.shape == node.aval.shape and other.aval.dtype == node.aval.dtype)
    return other if fits else None


def _noop(node: Node, builder: Builder) -> Any:
    return _same(node, node.args[0])


def _neutral(position: int, test: Callable[[Any], bool]) -> Row:
    """The other operand, where the one at `position` is an exact scalar that changes nothing."""

    def row(node: Node, builder: Builder) -> Any:
        scalar = node.args[position]
        exact = isinstance(scalar, np.generic) and scalar.dtype.kind in "biu"
        return _same(node, node.args[1 - position]) if exact and test(scalar) else None

    return row


def _involution(node: Node, builder: Builder) -> Any:
    inner = node_at(node)
    return inner.args[0] if inner is not None and inner.target is node.target else None


def _one(c: Any) -> bool:
    return bool(c == 1)


def _lowest(c: Any) -> bool:
    return bool(c == (False if c.dtype == np.bool_ else jnp.iinfo(c.dtype).min))


def _highest(c: Any) -> bool:
    return bool(c == (True if c.dtype == np.bool_ else jnp.iinfo(c.dtype).max))


def _zero(c: Any) -> bool:
    return bool(c == 0)


def _all_ones(c: Any) -> bool:
    return bool(np.invert(c) == 0)


def _div_to_mul(node: Node, builder: Builder) -> Any:
    """x / 2**k is x * 2**-k exactly, where both constants are normal numbers."""
    x, c = node.args
    if not isinstance(c, np.generic) or not jnp.issubdtype(c.dtype, jnp.floating) or not np.isfinite(c):
        return None
    tiny, inverse = float(jnp.finfo(c.dtype).tiny), 1.0 / float(c) if c != 0 else 0.0
    if abs(np.frexp(float(c))[0]) != 0.5 or min(abs(float(c)), abs(inverse)) < tiny:
        return None
    return emit(builder, node, OPS["mul"], (x, c.dtype.type(inverse)), {}, node.aval)


def _convert_chain(node: Node, builder: Builder) -> Any:
    """A lossless widening in between changes nothing (float32 to float64 flushes subnormals)."""
    inner = node_at(node)
    if not is_call(inner, "convert_element_type") or (x := node_at(inner)) is None:
        return None
    if x.aval.dtype == np.float32 or not np.can_cast(x.aval.dtype, inner.aval.dtype, "safe"):
        return None
    if x.aval.dtype == node.aval.dtype:
        return x
    return emit(builder, node, node.target, (x,), dict(node.kwargs), node.aval)


def _broadcast_noop(node: Node, builder: Builder) -> Any:
    dims = node.kwargs["broadcast_dimensions"]
    return _noop(node, builder) if tuple(dims) == tuple(range(len(node.aval.shape))) else None


def _broadcast_chain(node: Node, builder: Builder) -> Any:
    inner, outer = node.args[0], node.kwargs["broadcast_dimensions"]
    if not is_call(inner, "broadcast_in_dim"):
        return None
    dims = tuple(outer[d] for d in inner.kwargs["broadcast_dimensions"])
    params = {"shape": node.kwargs["shape"], "broadcast_dimensions": dims}
    return emit(builder, node, node.target, inner.args, params, node.aval)


def _without_ones(shape: tuple[Any, ...]) -> list[Any]:
    return [d for d in shape if d != 1]


def _reshape_chain(node: Node, builder: Builder) -> Any:
    """Through an inner reshape, or a broadcast that only adds dimensions of 1."""
    inner = node_at(node)
    if not (is_call(inner, "reshape") or is_call(inner, "broadcast_in_dim")) or (x := node_at(inner)) is None:
        return None
    if not is_call(inner, "reshape") and _without_ones(x.aval.shape) != _without_ones(inner.aval.shape):
        return None
    return _same(node, x) or emit(builder, node, OPS["reshape"], (x,), dict(node.kwargs), node.aval)


def _transpose_chain(node: Node, builder: Builder) -> Any:
    inner, order = node.args[0], node.kwargs["permutation"]
    if not is_call(inner, "transpose"):
        return None
    order = tuple(inner.kwargs["permutation"][i] for i in order)
    if order == tuple(range(len(order))):
        return inner.args[0]
    return emit(builder, node, node.target, inner.args, {"permutation": order}, node.aval)


def _transpose_ones(node: Node, builder: Builder) -> Any:
    """Moving dimensions of 1 is a reshape; moving nothing is nothing."""
    x = node_at(node)
    if x is None:
        return None
    order, shape = node.kwargs["permutation"], x.aval.shape
    real = [d for d in order if shape[d] != 1]
    if real != sorted(real):
        return None
    params = {"new_sizes": node.aval.shape}
    return _same(node, x) or emit(builder, node, OPS["reshape"], node.args, params, node.aval)


def _rev_noop(node: Node, builder: Builder) -> Any:
    return None if node.kwargs["dimensions"] else node.args[0]


def _slice_noop(node: Node, builder: Builder) -> Any:
    strides = node.kwargs["strides"]
    return _noop(node, builder) if strides is None or all(s == 1 for s in strides) else None


def _ranges(node: Node) -> list[tuple[Any, Any, int]] | None:
    """(start, limit, stride) for each dimension of a slice; None when a size is not known."""
    p = node.kwargs
    found = list(zip(p["start_indices"], p["limit_indices"], p["strides"] or [1] * len(p["start_indices"])))
    return found if all(isinstance(x, int) for row in found for x in row) else None


def _slice_of(builder: Builder, node: Node, x: Node, ranges: Any) -> Any:
    starts, limits, strides = (tuple(c) for c in zip(*ranges))
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return _settle(emit(builder, node, OPS["slice"], (x,), params, node.aval), builder)


def _slice_chain(node: Node, builder: Builder) -> Any:
    """A slice of a slice is one slice (empty ones are left alone)."""
    inner = node.args[0]
    if not is_call(inner, "slice"):
        return None
    outer, first = _ranges(node), _ranges(inner)
    if not outer or not first or any(i >= j for i, j, _ in outer):
        return None
    both = [(a + s * i, a + s * (j - 1) + 1, s * t) for (a, _, s), (i, j, t) in zip(first, outer)]
    return _slice_of(builder, node, inner.args[0], both)


def _slice_part(node: Node, builder: Builder) -> Any:
    """A slice that reads one operand of a concatenation only."""
    inner, ranges = node.args[0], _ranges(node)
    if not is_call(inner, "concatenate") or not ranges:
        return None
    axis, begin = inner.kwargs["dimension"], 0
    first, last, stride = ranges[axis]
    for part in inner.args:
        length = part.aval.shape[axis]
        if not isinstance(length, int):
            return None
        if begin <= first < last <= begin + length:
            ranges[axis] = (first - begin, last - begin, stride)
            return _slice_of(builder, node, part, ranges)
        begin += length
    return None


def _pad_noop(node: Node, builder: Builder) -> Any:
    return node.args[0] if all(p == (0, 0, 0) for p in map(tuple, node.kwargs["padding_config"])) else None


def _only_operand(node: Node, builder: Builder) -> Any:
    return node.args[0] if len(node.args) == 1 else None


def _concatenate_chain(node: Node, builder: Builder) -> Any:
    """What is joined along the same dimension is joined at once: no element is copied twice."""
    axis = node.kwargs["dimension"]
    joins = lambda x: is_call(x, "concatenate") and x.kwargs["dimension"] == axis
    if not any(map(joins, node.args)):
        return None
    parts = tuple(p for x in node.args for p in (x.args if joins(x) else (x,)))
    return emit(builder, node, node.target, parts, dict(node.kwargs), node.aval)


def _lone_axes(node: Node, builder: Builder) -> Any:
    """Folding one element gives that element (XLA does not even turn -0.0 into 0.0)."""
    x, axes = node_at(node), node.kwargs["axes"]
    if x is None or any(x.aval.shape[a] != 1 for a in axes):
        return None
    params = {"new_sizes": node.aval.shape}
    return _same(node, x) or emit(builder, node, OPS["reshape"], (x,), params, node.aval)


def _select_known(node: Node, builder: Builder) -> Any:
    """A constant choice, or a choice between one value and itself."""
    which, *cases = node.args
    if isinstance(which, np.generic):
        return _same(node, cases[int(which)])
    return _same(node, cases[0]) if all(c is cases[0] for c in cases) else None


def _static_slice(node: Node, builder: Builder) -> Any:
    """A dynamic slice at known positions (clamped into the array, as JAX does)."""
    x, *starts = node.args
    shape, sizes = x.aval.shape, node.kwargs["slice_sizes"]
    known = all(isinstance(s, np.generic) for s in starts)
    if not known or any(isinstance(d, sympy.Expr) for d in (*shape, *sizes)):
        return None
    first = tuple(int(np.clip(int(s), 0, d - n)) for s, d, n in zip(starts, shape, sizes))
    last = tuple(a + n for a, n in zip(first, sizes))
    params = {"start_indices": first, "limit_indices": last, "strides": (1,) * len(first)}
    return _same(node, x) or emit(builder, node, OPS["slice"], (x,), params, node.aval)


def _whole_update(node: Node, builder: Builder) -> Any:
    """Updating all of an array is the update: every start is clamped to 0."""
    return _same(node, node.args[1])


def _part(which: int) -> Row:
    """real(complex(x, y))  →  x"""

    def row(node: Node, builder: Builder) -> Any:
        if not is_call(node.args[0], "complex"):
            return None
        part = node.args[0].args[which]
        if is_node(part) or not node.aval.shape:
            return part
        params = {"shape": node.aval.shape, "broadcast_dimensions": ()}
        return emit(builder, node, OPS["broadcast_in_dim"], (part,), params, node.aval)

    return row


def _whole_pair(node: Node, builder: Builder) -> Any:
    """complex(real(x), imag(x))  →  x"""
    re, im = node.args
    apart = is_call(re, "real") and is_call(im, "imag") and re.args[0] is im.args[0]
    return _same(node, re.args[0]) if apart else None


ROWS: dict[str, tuple[Row, ...]] = {
    "add": (_neutral(0, _zero), _neutral(1, _zero)),
    "sub": (_neutral(1, _zero),),
    "mul": (_neutral(0, _one), _neutral(1, _one)),
    "div": (_neutral(1, _one), _div_to_mul),
    "max": (_neutral(0, _lowest), _neutral(1, _lowest)),
    "min": (_neutral(0, _highest), _neutral(1, _highest)),
    "or": (_neutral(0, _zero), _neutral(1, _zero)),
    "xor": (_neutral(0, _zero), _neutral(1, _zero)),
    "and": (_neutral(0, _all_ones), _neutral(1, _all_ones)),
    "shift_left": (_neutral(1, _zero),),
    "shift_right_logical": (_neutral(1, _zero),),
    "shift_right_arithmetic": (_neutral(1, _zero),),
    "neg": (_involution,),
    "not": (_involution,),
    "real": (_part(0),),
    "imag": (_part(1),),
    "complex": (_whole_pair,),
    "convert_element_type": (_noop, _convert_chain),
    "bitcast_convert_type": (_noop,),
    "broadcast_in_dim": (_broadcast_noop, _broadcast_chain),
    "reshape": (_noop, _reshape_chain),
    "transpose": (_transpose_ones, _transpose_chain),
    "rev": (_rev_noop,),
    "slice": (_slice_noop, _slice_chain, _slice_part),
    "pad": (_pad_noop,),
    "concatenate": (_only_operand, _concatenate_chain),
    "dynamic_slice": (_static_slice,),
    "dynamic_update_slice": (_whole_update,),
    "select_n": (_select_known,),
    **{f"reduce_{n}": (_lone_axes,) for n in ("sum", "prod", "max", "min", "and", "or", "xor")},
}
