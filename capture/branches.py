"""`if` on an array as a `cond` node, instead of a graph break.

When a jump's condition is a scalar array, both sides are run symbolically, each as a body of its
own, up to the place where they meet again (the jump's immediate post-dominator, or both returns).
The `if` becomes `lax.cond` where that is provably the same: neither side changes anything older,
breaks or raises, and every live local, stack slot or result is the same object on both sides or an
array of the same Aval (weak type included). Anything else breaks the graph as before.

Inside transformed functions nothing is converted: there eager JAX may see a tracer, and raise.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import networkx as nx

from dynacomp.capture.bodies import Body, localise
from dynacomp.capture.code import Decoded, Instr
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.graph import Closure, Graph
from dynacomp.capture.machine import Capture, Frame, step
from dynacomp.capture.nodes import emit_node
from dynacomp.capture.resume import ENDS, live_locals
from dynacomp.capture.values import ArrayV, Const, Lazy, NotConstant, TupleV

EXIT = -1
MAX_SIDE_STEPS = 2_000


class Differs(Exception):
    """The sides cannot be merged."""


@dataclass(eq=False)
class Side:
    """One side of the `if`, run to the meeting place."""

    body: Body
    frame: Frame


@dataclass(eq=False)
class Slots:
    """The pairs of arrays that the `cond` must choose between."""

    pairs: list[tuple[ArrayV, ArrayV]] = field(default_factory=list)
    merged: list[ArrayV] = field(default_factory=list)


def branch(cap: Capture, frame: Frame, instr: Instr, condition: ArrayV, wanted: bool) -> int | None:
    """Captures both sides of a conditional jump on `condition` (taken when it is `wanted`).

    Returns the offset where they meet, or None after setting `frame.result` when both return;
    raises Break where an `if` cannot be a `cond`.
    """
    refusal = Break("branch", "a condition that is an array")
    if cap.lessons.plain_ifs or condition.aval.shape != () or any(not b.is_side for b in cap.bodies):
        raise refusal
    meet = meeting_place(frame.code, frame.index)
    jumped, fallen = frame.code.at[instr.argval], frame.index + 1
    try:
        sides = [run_side(cap, frame, start, meet) for start in ((jumped, fallen) if wanted else (fallen, jumped))]
        merge(cap, frame, condition, sides, meet)
    except (Break, Raised, Differs, NotConstant):
        raise refusal from None
    return None if meet == EXIT else frame.code.instrs[meet].offset


def meeting_place(code: Decoded, index: int) -> int:
    """The instruction that every way on from `index` passes first, or EXIT."""
    flow = nx.DiGraph()
    for i, instr in enumerate(code.instrs):
        for successor in _successors(code, i, instr):
            flow.add_edge(successor, i)
    found = nx.immediate_dominators(flow, EXIT).get(index, EXIT) if EXIT in flow else EXIT
    return EXIT if found is None else found


def _successors(code: Decoded, i: int, instr: Instr) -> Iterator[int]:
    if instr.name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"):
        yield EXIT
        return
    if ("JUMP" in instr.name or instr.name in ("FOR_ITER", "SEND")) and isinstance(instr.argval, int):
        yield code.at[instr.argval]
    if instr.name not in ENDS and i + 1 < len(code.instrs):
        yield i + 1


def run_side(cap: Capture, frame: Frame, start: int, meet: int) -> Side:
    """Runs a copy of the frame from `start` until it meets the other side, or returns."""
    body = Body.inside(cap, f"side_{start}", is_side=True)
    copy = replace(frame, locals=dict(frame.locals), cells=dict(frame.cells), stack=list(frame.stack),
                   handling=list(frame.handling), loops={}, index=start)
    cap.bodies.append(body)
    outer, cap.current = cap.current, copy
    limit = cap.steps + MAX_SIDE_STEPS
    try:
        while copy.index != meet and copy.result is None and copy.yielded is None:
            step(cap, copy)
            if cap.steps > limit:
                raise Differs("a side that is too long")
    finally:
        cap.current = outer
        cap.bodies.pop()
    if (copy.result is None) == (meet == EXIT) or copy.yielded is not None or copy.handling != frame.handling:
        raise Differs("the sides do not meet")
    return Side(body, copy)


def merge(cap: Capture, frame: Frame, condition: ArrayV, sides: list[Side], meet: int) -> None:
    """Brings the frame to the meeting place, with a `cond` node for what differs."""
    yes, no = sides
    slots = Slots()
    if meet == EXIT:
        result = both(cap, yes.frame.result, no.frame.result, slots)
        locals_, stack = frame.locals, frame.stack
    else:
        result = None
        live = live_locals(frame.code, meet)
        locals_ = {n: both(cap, yes.frame.locals.get(n), no.frame.locals.get(n), slots)
                   for n in {**yes.frame.locals, **no.frame.locals} if n in live}
        if len(yes.frame.stack) != len(no.frame.stack):
            raise Differs("stacks")
        stack = [both(cap, a, b, slots) for a, b in zip(yes.frame.stack, no.frame.stack)]
    if slots.pairs:
        choose(cap, condition, sides, slots)
    frame.locals, frame.stack, frame.result = locals_, stack, result


def both(cap: Capture, a: Any, b: Any, slots: Slots) -> Any:
    """The one Value that stands for `a` on one side and `b` on the other."""
    if a is b or (isinstance(a, Lazy) and isinstance(b, Lazy) and a.obj is b.obj):
        return a
    if a is None or b is None or type(a) is not type(b):
        raise Differs("kinds")
    if isinstance(a, ArrayV):
        return _choice(a, b, slots)
    if isinstance(a, Const) and (a.value is b.value or (type(a.value) is type(b.value) is int and a.value == b.value)):
        return a
    if isinstance(a, TupleV) and a.cls is b.cls and len(a.items) == len(b.items):
        return TupleV([both(cap, x, y, slots) for x, y in zip(cap.items(a), cap.items(b))], a.cls)
    raise Differs("values")


def _choice(a: ArrayV, b: ArrayV, slots: Slots) -> ArrayV:
    if a.node is b.node:
        return a
    if a.aval != b.aval or not _is_plain(a) or not _is_plain(b):
        raise Differs("avals")
    for (x, y), merged in zip(slots.pairs, slots.merged):
        if x.node is a.node and y.node is b.node:
            return merged
    slots.pairs.append((a, b))
    uncertain = any(v.real is not None or v.uncertain for v in (a, b))
    slots.merged.append(ArrayV(a.node, a.aval, uncertain=uncertain))  # its node follows, see `choose`
    return slots.merged[-1]


def _is_plain(v: ArrayV) -> bool:
    """A JAX array. Where an input is chosen, its identity is lost: see `effects.certain`."""
    return v.real is None or isinstance(v.real, jax.Array)


def choose(cap: Capture, condition: ArrayV, sides: list[Side], slots: Slots) -> None:
    """Emits the `cond` and points the merged Values at its results."""
    closures = [close(cap, side, [pair[i] for pair in slots.pairs]) for i, side in enumerate(sides)]
    avals = tuple(v.aval for v in slots.merged)
    node = emit_node(cap, jax.lax.cond, ((localise(cap, condition.node), *closures), {}), avals, "cond")
    for i, value in enumerate(slots.merged):
        value.node = emit_node(cap, operator.getitem, ((node, i), {}), value.aval, f"cond_{i}")


def close(cap: Capture, side: Side, values: list[ArrayV]) -> Closure:
    """A side as a function of nothing but what it captures, returning `values`."""
    cap.bodies.append(side.body)
    try:
        graph = side.body.builder.finish(tuple(cap.node_argument(v) for v in values))
    finally:
        cap.bodies.pop()
    order = {n: i for i, n in enumerate(side.body.captured.values())}
    places = sorted(graph.placeholders, key=order.__getitem__)
    rest = [n for n in graph.nodes if n.op != "placeholder"]
    return Closure(Graph((*places, *rest), graph.consts, graph.name),
                   tuple(localise(cap, n) for n in side.body.captured))
