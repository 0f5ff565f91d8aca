"""Passes of one's own, and what they are made with: `dynacomp.passes`.

    from dynacomp import passes

    def swish(x):
        return x * jax.nn.sigmoid(x)

    mine = passes.default().insert(passes.rewriter(swish, jax.nn.silu), before="dead_code")
    fast = dynacomp.jit(f, options={"passes": mine})     # for one function
    with passes.using(mine):                             # for all, within the block
        ...

A pass is a function: Graph to Graph (level "captured" or "primitive"), or Schedule to Schedule ("kernels"). It
gets a value and returns another; `Graph`, `Node` and `Builder` are what Graphs are made of. Each pass that is not
dynacomp's own is verified after each run: it must keep the inputs and the outputs' shapes and dtypes. Where a pass
raises, or does not, its change is left out and a notice says so; under `fullgraph=True` CompileError is raised.

    default, current            the list that dynacomp comes with, and the one in force
    set_passes, using           put another in force for the process: all functions are compiled anew
    rewriter, find, rewrite     patterns and replacements that are plain functions of arrays
    rebuild                     a Graph with each call given to a rule: what a pass that is no pattern is made with
    nodes_in, users_of          the Nodes within an argument; who reads each Node of a Graph
    lower, schedule             what a function of arrays becomes: its primitive Graph, and that Graph's kernels
    verify, interpret, diff, count   is it well formed; run it; what changed; flops and bytes (of unknown sizes, too)

`dynacomp.explain(f)(*args).regions[i]` has the forms of a compiled region: `graph`, `lowered`, `schedule`.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynacomp import misses
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Graph, Node, nodes_in
from dynacomp.capture.graph.verifier import GraphError
from dynacomp.driver.interpreted import interpreted
from dynacomp.driver.pass_list import CAPTURED, DEFAULT, KERNELS, PRIMITIVE, Form, Pass, Passes, current, set_current
from dynacomp.driver.verifying import check_inputs, is_primitive, verify
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import Schedule
from dynacomp.lowering.interpret.schedules import run as run_schedule
from dynacomp.lowering.passes import core, cost
from dynacomp.lowering.passes.core import users_of
from dynacomp.lowering.passes.cost import Cost
from dynacomp.lowering.passes.patterns import Match, PatternError, Where, find, rewrite
from dynacomp.lowering.primitives import specialise
from dynacomp.lowering.primitives.translate import lower as lower_captured
from dynacomp.lowering.primitives.translate import lower_function

__all__ = [
    "CAPTURED", "KERNELS", "PRIMITIVE", "Aval", "Builder", "Cost", "Graph", "GraphError", "Match", "Node", "Pass",
    "Passes", "PatternError", "Schedule", "count", "current", "default", "diff", "find", "interpret", "lower",
    "nodes_in", "rebuild", "rewrite", "rewriter", "schedule", "set_passes", "users_of", "using", "verify",
]


def default() -> Passes:
    """The list that dynacomp comes with."""
    return DEFAULT


def set_passes(listed: Passes) -> Passes:
    """Puts a list in force for every function whose options name none; returns the one before. All compiled entries
    are forgotten."""
    if not isinstance(listed, Passes):
        raise TypeError(f"expected a dynacomp.passes.Passes, such as passes.default(), got {listed!r}")
    before = current()
    set_current(listed)
    if listed != before:
        misses.reset()
    return before


@contextlib.contextmanager
def using(listed: Passes) -> Iterator[Passes]:
    """Within the block the list is in force, process-wide."""
    before = set_passes(listed)
    try:
        yield listed
    finally:
        set_passes(before)


def rewriter(pattern: Callable[..., Any], replacement: Callable[..., Any], *, where: Where | None = None,
             example: Sequence[Any] | None = None, name: str = "") -> Callable[[Graph], Graph]:
    """The pass that puts `replacement` where `pattern` fits and `where(match)` holds (see `rewrite`)."""
    def run(graph: Graph) -> Graph:
        return rewrite(graph, pattern, replacement, where=where, example=example)

    run.__name__ = run.__qualname__ = name or f"rewrite_{getattr(pattern, '__name__', 'pattern').strip('<>')}"
    return run


def rebuild(graph: Graph, rule: Callable[[Node, Builder], Any]) -> Graph:
    """`graph`, captured or primitive, with what `rule(node, builder)` answers in the place of each call: a Node
    (of those that it appended to the builder, or an argument of the call), a NumPy scalar, or None to keep it.

    The call that the rule is given has its arguments rewritten already. Primitives with effects are not offered.

        def sine_of_cosine(node, builder):
            if node.target is jnp.cos:
                return builder.call(jnp.sin, node.args, {}, node.aval)

        mine = passes.default().insert(lambda graph: passes.rebuild(graph, sine_of_cosine), name="swap",
                                       level="captured")
    """
    return core.rebuild(graph, rule)


def lower(fn: Callable[..., Any] | Graph, *args: Any) -> Graph:
    """The primitive Graph of a function of arrays at these arguments (arrays, ShapeDtypeStructs), or of a captured
    Graph, as it is before any pass."""
    if isinstance(fn, Graph):
        return fn if is_primitive(fn) else lower_captured(fn).graph
    return lower_function(fn, *args)


def interpret(form: Form, *inputs: Any) -> tuple[Any, ...]:
    """What a Graph or a Schedule computes of its inputs, in their order, one operation at a time: JAX's own
    operations, or NumPy loops for kernels. The oracle of every pass. TypeError where the inputs are others."""
    check_inputs(form, inputs)
    if isinstance(form, Schedule):
        return run_schedule(form, inputs, {name: row.reference for name, row in TEMPLATES.items()})
    return tuple(specialise.run(form, *inputs)) if is_primitive(form) else interpreted(form)(*inputs)


def diff(before: Form, after: Form) -> str:
    """The lines that differ between two forms as they print; "" where they print the same."""
    old, new = str(before).splitlines(), str(after).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def count(graph: Graph) -> Cost:
    """Operations and bytes of a Graph (a captured one is lowered first): see `Cost`."""
    return cost.count(lower(graph))
