"""A captured Graph run node by node by JAX: the oracle of capture, backend "eager", and what XLA
compiles where our own lowering cannot.

    program = interpreted(graph)
    outputs = program(*arrays)      # a tuple; symbolic sizes are read off the arrays
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.graph.graph_sizes import scope_of, with_sizes
from dynacomp.capture.graph.interpreter import run
from dynacomp.capture.graph.size_evaluation import evaluate


def interpreted(graph: Graph) -> Callable[..., tuple[Any, ...]]:
    """The callable of a captured Graph; JAX can trace it."""
    if scope_of(graph) is None:
        return lambda *arrays: tuple(run(graph, *map(_as_input, arrays)))
    return lambda *arrays: tuple(run(at_sizes(graph, list(map(np.shape, arrays))), *map(_as_input, arrays)))


def _as_input(x: Any) -> Any:
    """NumPy's arrays are arrays of JAX's in a Graph: a row of one may be at a place that a loop computes."""
    return jnp.asarray(x) if type(x) is np.ndarray and x.dtype.isnative and x.dtype.kind in "biufc" else x


def at_sizes(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> Graph:
    """`graph` for inputs of these shapes: each symbol stands alone as a dimension of some input."""
    values = {str(d): n for p, shape in zip(graph.placeholders, shapes) for d, n in zip(p.aval.shape, shape)}
    return with_sizes(graph, lambda size: evaluate(size, values))
