"""The list of passes over primitive Graphs, in the order in which they run.

Each row is `Graph -> Graph` and keeps the meaning bit for bit, so the list holds in every numerics
mode; `optimise` runs it with nothing around, the driver runs the rows itself, verifying, timing and
dumping between them. To add a pass: write the function, add a row.

    >>> import jax, numpy as np
    >>> from dynacomp.capture.graph.avals import Aval
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> print(optimise(lower_function(lambda x: (x.T.T + x) / 2, Aval((2, 3), np.dtype("float32")))))
    def graph(x0: f32[2,3]):
        add = add(x0, x0)  # f32[2,3]
        mul = mul(add, np.float32(0.5))  # f32[2,3]
        return (mul,)  # (f32[2,3],)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.passes.attention import fuse_attention
from dynacomp.lowering.passes.core import dead_code, merge_common
from dynacomp.lowering.passes.fold import fold_constants
from dynacomp.lowering.passes.kernels import use_kernels
from dynacomp.lowering.passes.loops import add_to_many, add_to_parts, everywhere, hoist_invariants, trim_loops
from dynacomp.lowering.passes.pairs import carry_parts
from dynacomp.lowering.passes.products import turn_products
from dynacomp.lowering.passes.recompute import recompute
from dynacomp.lowering.passes.simplify import simplify


def in_bodies(one: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """The pass over a Graph and the bodies of its loops and branches, under the same name."""

    @functools.wraps(one)
    def run(graph: Graph) -> Graph:
        return everywhere(one, graph)

    return run


PASSES: tuple[Callable[[Graph], Graph], ...] = (
    trim_loops,
    add_to_parts,
    add_to_many,
    *map(in_bodies, (fold_constants, simplify)),
    carry_parts,
    hoist_invariants,
    *map(in_bodies, (merge_common, fuse_attention, use_kernels, turn_products)),
    recompute,
    in_bodies(dead_code),
)


def optimise(graph: Graph) -> Graph:
    """All passes, in order."""
    for one in PASSES:
        graph = one(graph)
    return graph
