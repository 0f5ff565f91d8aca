"""Constant folding: what depends on no input is computed while compiling (see `primitives.exact`).

Only small results are kept (`LIMIT` elements): a big constant costs memory traffic that computing it
in the loop does not. Scalars become typed arguments. Fills and counters (`broadcast_in_dim` of a
scalar, `iota`) are left to the loops, which make them for free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacomp.capture.graph.avals import Aval, is_aval
from dynacomp.capture.graph.graph import GET_ATTR, Builder, Graph, Node, is_node
from dynacomp.lowering.passes.core import rebuild
from dynacomp.lowering.primitives.exact import evaluate
from dynacomp.lowering.primitives.ops import EXTERN, op_kind

LIMIT = 1024
_FREE = frozenset({"broadcast_in_dim", "iota", "dim_as_value", "iota_2x32_shape"})


def fold_constants(graph: Graph) -> Graph:
    """Replace calls on constants by their values."""

    def rule(node: Node, builder: Builder) -> Any:
        if not _foldable(node, builder):
            return None
        args = [builder.consts[a.target] if is_node(a) else a for a in node.args]
        value = evaluate(node.target, args, node.kwargs)
        return value[()] if value.ndim == 0 else builder.const(value, node.aval, node.name)

    return rebuild(graph, rule)


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
