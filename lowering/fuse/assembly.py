"""The last step to a Schedule: which buffers there are, where they live, what the caller gives and gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy

from dynacomp.capture.graph.graph import GET_ATTR, Graph
from dynacomp.lowering.fuse.memory import plan
from dynacomp.lowering.fuse.schedule import ExternStep, Schedule, Step
from dynacomp.lowering.kernel_ir.loops import Buffer
from dynacomp.lowering.sizes.indexing import product

Shapes = Mapping[str, tuple[tuple[sympy.Expr, ...], np.dtype]]


def assemble(graph: Graph, steps: tuple[Step, ...], shapes: Shapes, outputs: Sequence[str], inner: bool) -> Schedule:
    """The Schedule of `steps`; `outputs` names the buffer of each output of `graph`. The body of a loop
    (`inner`) knows the sizes of the Schedule around it.

    Raises ValueError for a size that no input has as a dimension of its own, and for a step that comes too early.
    """
    inputs = tuple(n.name for n in graph.placeholders)
    consts = {n.name: np.asarray(graph.consts[n.target]) for n in graph.nodes if n.op == GET_ATTR}
    _check_order(steps, {*inputs, *consts}, outputs)
    touched = (b for s in steps for b in (*s.operands, *s.results, *s.scratch))
    used = dict.fromkeys([*inputs, *consts, *outputs, *touched])
    buffers = {n: Buffer(n, *shapes[n]) for n in used}
    aliases = {o: o for o in outputs if o in inputs or o in consts}
    first, last = _spans(steps)
    kept = {*inputs, *consts, *outputs}
    lives = {n: (_bytes(buffers[n]), first[n], last[n]) for n in first if n not in kept}
    shared = not inner and not any(isinstance(s, ExternStep) for s in steps)  # with all of the program's outputs
    rooms = {o: (_bytes(buffers[o]), first[o]) for o in outputs if o not in aliases} if shared else {}
    places = plan(lives, rooms)
    return Schedule(
        buffers,
        inputs,
        tuple(outputs),
        steps,
        consts,
        () if inner else _sizes(graph),
        places.offsets,
        places.arena,
        aliases,
        graph.nodes[-1].aval or tuple(o.aval for o in graph.output),
        graph.name,
        hosts=places.hosts,
    )


def _check_order(steps: tuple[Step, ...], known: set[str], outputs: Sequence[str]) -> None:
    """ValueError where a step, or the caller, reads what nobody has written: memory holds anything there."""
    for step in steps:
        known |= {*step.results, *step.scratch}
        if early := {*step.operands} - known:
            raise ValueError(f"{step.results} read {sorted(early)} before it is written")
    if missing := {*outputs} - known:
        raise ValueError(f"nothing writes {sorted(missing)}")


def _spans(steps: tuple[Step, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """The first and the last step of each buffer."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, step in enumerate(steps):
        for name in (*step.results, *step.scratch, *step.operands):
            first.setdefault(name, k)
            last[name] = k
    return first, last


def _bytes(buffer: Buffer) -> sympy.Expr:
    return product(buffer.shape) * buffer.dtype.itemsize


def _sizes(graph: Graph) -> tuple[tuple[sympy.Symbol, tuple[int, int]], ...]:
    """Where to read each symbolic size: the first input dimension that is that symbol alone."""
    found: dict[sympy.Symbol, tuple[int, int]] = {}
    for k, node in enumerate(graph.placeholders):
        for d, dim in enumerate(node.aval.shape):
            if isinstance(dim, sympy.Symbol):
                found.setdefault(dim, (k, d))
    for node in graph.nodes:
        for dim in getattr(node.aval, "shape", ()):
            missing: set[sympy.Symbol] = getattr(dim, "free_symbols", set()) - found.keys()
            if missing:
                raise ValueError(f"{graph.name}: no input has {missing} as a dimension of its own, but {node} needs it")
    return tuple(sorted(found.items(), key=lambda row: row[0].name))
