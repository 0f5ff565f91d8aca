"""Constant folding: what depends on no input is computed while compiling, by eager JAX itself.

Only small results are kept (`LIMIT` elements): a big constant costs memory traffic that computing it
in the loop does not. Scalars become typed arguments. Fills and counters (`broadcast_in_dim` of a
scalar, `iota`) are left to the loops, which make them for free.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from dynacomp.capture.avals import Aval
from dynacomp.capture.graph import GET_ATTR, Builder, Graph, Node
from dynacomp.lowering.ops import EXTERN, Op
from dynacomp.lowering.passes_core import rebuild

LIMIT = 1024
_FREE = frozenset({"broadcast_in_dim", "iota", "dim_as_value", "iota_2x32_shape"})


def fold_constants(graph: Graph) -> Graph:
    """Replace calls on constants by their values."""

    def rule(node: Node, builder: Builder) -> Any:
        if not _foldable(node, builder):
            return None
        args = [builder.consts[a.target] if isinstance(a, Node) else a for a in node.args]
        value = evaluate(node.target, args, node.kwargs)
        return value[()] if value.ndim == 0 else builder.const(value, node.aval, node.name)

    return rebuild(graph, rule)


def evaluate(op: Op, args: Any, params: Any) -> np.ndarray:
    """The value of an Op (of one result) on constants; also while JAX traces around us."""
    with jax.ensure_compile_time_eval():
        return np.asarray(op(*args, **params))


def _foldable(node: Node, builder: Builder) -> bool:
    if not isinstance(node.target, Op) or node.target.kind == EXTERN or node.target.name in _FREE:
        return False
    return (isinstance(node.aval, Aval) and _small(node.aval) and bool(node.args)
            and all(_constant(a, builder) for a in node.args))


def _constant(arg: Any, builder: Builder) -> bool:
    if isinstance(arg, Node):
        return arg.op == GET_ATTR and _small(arg.aval)
    return isinstance(arg, np.generic)


def _small(aval: Aval) -> bool:
    sizes = [d for d in aval.shape if isinstance(d, int)]
    return len(sizes) == len(aval.shape) and int(np.prod(sizes, dtype=np.int64)) <= LIMIT
