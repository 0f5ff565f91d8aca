"""What loops can compute, and why not when they cannot: the reasons that users read at a seam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.graph.graph import Node, nodes_in
from dynacomp.lowering.kernel_ir.scalars import kind
from dynacomp.lowering.primitives.control import REFERENCES, bodies
from dynacomp.lowering.rules.gather import GATHERS
from dynacomp.lowering.rules.layout import LAYOUT
from dynacomp.lowering.rules.pairs import PAIRS
from dynacomp.lowering.rules.pointwise import POINTWISE, precision_of
from dynacomp.lowering.rules.reader import dtype_of
from dynacomp.lowering.rules.reduce import CUMULATIVE
from dynacomp.lowering.rules.scatter import MODES, why_not_scatter
from dynacomp.lowering.rules.templates import MATRICES, TEMPLATE_RULES, why_not_fft, why_not_matrix, why_not_top_k
from dynacomp.lowering.rules.window import ALL_FOLDS, why_not_select

KNOWN = {*POINTWISE, *LAYOUT, *GATHERS, *ALL_FOLDS, *CUMULATIVE, *MODES}


def _bitcast(node: Node) -> str | None:
    same = dtype_of(node).itemsize == dtype_of(node.args[0]).itemsize
    boolean = "b" in (kind(dtype_of(node)), kind(dtype_of(node.args[0])))
    return None if same and not boolean else "a bitcast that changes the width"


def _precision(node: Node) -> str | None:
    return None if precision_of(node) is not None else "a precision that is no dtype's"


def _convolution(node: Node) -> str | None:
    spatial = len(node.kwargs["window_strides"])
    return None if spatial <= 3 else f"a convolution over {spatial} spatial dimensions"


def _body(node: Node) -> str | None:
    """A loop or branches go to XLA as a whole where something inside must."""
    inside = (why_not(n) for graph in bodies(node.kwargs) for n in graph.calls)
    reason = next(filter(None, inside), None)
    return reason and f"{reason} (inside a `{node.target.name}`)"


_CONDITIONS: dict[str, Callable[[Node], str | None]] = {
    "bitcast_convert_type": _bitcast,
    "reduce_precision": _precision,
    "conv_general_dilated": _convolution,
    **dict.fromkeys(MODES, why_not_scatter),
    "select_and_scatter_add": why_not_select,
    "top_k": why_not_top_k,
    **dict.fromkeys(MATRICES, why_not_matrix),
    "fft": why_not_fft,
}


def why_not(node: Node) -> str | None:
    """Why a node must go to XLA; None where loops (or a template) can compute it."""
    name = getattr(node.target, "name", None)
    if name is None:  # getitem: where its source goes
        return None
    if name == "extern":
        return str(node.kwargs.get("why") or "no lowering")
    if name in PAIRS:
        return None
    if name not in KNOWN and name not in TEMPLATE_RULES and name not in REFERENCES:
        return f"{name} has no lowering"
    for aval in _avals(node):
        held = (name in REFERENCES or name in MATRICES or name == "fft") and aval.dtype.kind == "c"
        if not kind(aval.dtype) and not held:
            return f"{name} on {aval.dtype}"
    if name in REFERENCES:
        return _body(node)
    condition = _CONDITIONS.get(name)
    return condition(node) if condition else None


def _avals(node: Node) -> list[Any]:
    own = node.aval if isinstance(node.aval, tuple) else (node.aval,)
    return [*own, *(n.aval for n in nodes_in(node.args) if not isinstance(n.aval, tuple))]
