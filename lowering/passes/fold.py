"""Constant folding: what depends on no input is computed while compiling, by eager JAX itself, or by NumPy
where that gives the same bits: XLA compiles each eager operation for tens of milliseconds first.

Only small results are kept (`LIMIT` elements): a big constant costs memory traffic that computing it
in the loop does not. Scalars become typed arguments. Fills and counters (`broadcast_in_dim` of a
scalar, `iota`) are left to the loops, which make them for free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dynacomp.capture.graph.avals import Aval, is_aval
from dynacomp.capture.graph.graph import GET_ATTR, Builder, Graph, Node, is_node
from dynacomp.lowering.passes.core import rebuild
from dynacomp.lowering.primitives.ops import EXTERN, Op, op_kind

LIMIT = 1024
_FREE = frozenset({"broadcast_in_dim", "iota", "dim_as_value", "iota_2x32_shape"})

# Ops that are exact, or rounded correctly, in NumPy and XLA alike.
_EXACT: dict[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": np.invert, "select_n": lambda which, no, yes: np.where(which, yes, no),
}


def fold_constants(graph: Graph) -> Graph:
    """Replace calls on constants by their values."""

    def rule(node: Node, builder: Builder) -> Any:
        if not _foldable(node, builder):
            return None
        args = [builder.consts[a.target] if is_node(a) else a for a in node.args]
        value = evaluate(node.target, args, node.kwargs)
        return value[()] if value.ndim == 0 else builder.const(value, node.aval, node.name)

    return rebuild(graph, rule)


def evaluate(op: Op, args: Any, params: Any) -> np.ndarray:
    """The value of an Op (of one result) on constants; also while JAX traces around us."""
    if op.name in _EXACT and not params and len(args) <= 3 and all(map(_is_exact, args)):
        with np.errstate(all="ignore"):
            value = np.asarray(_EXACT[op.name](*map(np.asarray, args)))
        if _is_exact(value):
            return value
    with jax.ensure_compile_time_eval():
        return np.asarray(op(*args, **params))


def _is_exact(x: Any) -> bool:
    """Whether both know it: XLA takes subnormal numbers for zeros on some CPUs."""
    x = np.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        return x.dtype.kind in "biu"
    return not np.any((x != 0) & (np.abs(x) <= np.finfo(x.dtype).tiny))


def _foldable(node: Node, builder: Builder) -> bool:
    if op_kind(node) in ("", EXTERN) or node.target.name in _FREE:
        return False
    return (is_aval(node.aval) and _small(node.aval) and bool(node.args)
            and all(_constant(a, builder) for a in node.args))


def _constant(arg: Any, builder: Builder) -> bool:
    if is_node(arg):
        return arg.op == GET_ATTR and _small(arg.aval)
    return isinstance(arg, np.generic)


def _small(aval: Aval) -> bool:
    sizes = [d for d in aval.shape if isinstance(d, int)]
    return len(sizes) == len(aval.shape) and int(np.prod(sizes, dtype=np.int64)) <= LIMIT
