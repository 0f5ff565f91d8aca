"""Graphs as StableHLO for platforms that are not here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from dynacomp.capture.graph.graph import Graph
from dynacomp.codegen.xla import as_function


def export_graph(graph: Graph, platforms: Sequence[str], avals: Sequence[Any]) -> jax.export.Exported:
    """`graph` as the XLA backend has it, lowered for platforms ("cpu", "cuda", "rocm", "tpu").

    `avals` are `jax.ShapeDtypeStruct`s of the inputs; their dimensions may be symbolic. The result's
    `mlir_module()` is the text.
    """
    return jax.export.export(jax.jit(as_function(graph)), platforms=tuple(platforms))(*avals)
