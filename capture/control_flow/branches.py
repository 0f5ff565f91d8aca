"""`if` on an array as a `cond` node, instead of a graph break.

When a jump's condition is a scalar array, both sides are run symbolically, each as a body of its
own, up to the place where they meet again (the jump's immediate post-dominator, or both returns).
The `if` becomes `lax.cond` where that is provably the same: no side breaks or raises, all arrays live in one
place, and every live local, stack slot, result and older object is the same on both sides, or can be joined
(see `merge`). Anything else breaks the graph as before.

A side may itself end in several places: a branch inside a loop's body where one way goes on and the
other leaves. Then the side has a `Fork`, and what the sides of the tree so made give is joined at once.

Inside transformed functions that is done where eager JAX has a value, in a gradient's (see `placement.has_value`), and
nowhere else: eager JAX would see a tracer, and raise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import is_concrete

from dynacomp.capture.base.errors import Break, Raised, Restart, stack_used
from dynacomp.capture.bodies.placement import has_value, may_part
from dynacomp.capture.bodies.subgraphs import Body, localise
from dynacomp.capture.bytecode.control_flow_graph import EXIT, live, meeting_place
from dynacomp.capture.control_flow.hoisting import hoisted, may_hoist
from dynacomp.capture.control_flow.merge import Differs, Join, Slot
from dynacomp.capture.graph.graph import Closure, Graph, Node
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.symbolic.effects import Effect, Real
from dynacomp.capture.symbolic.machine import Capture, Frame, step
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values.computed import NumberV, ScalarV
from dynacomp.capture.values.questions import is_graph_number
from dynacomp.capture.values.value import Value, node_of

MAX_SIDE_STEPS = 20_000
MANY_CALLS = 8  # of a function inside itself, on sides of jumps: it may have no end but what arrays say
MAX_STACK = 0.9  # of Python's recursion limit
RETURNED = -2

def nothing(frame: Frame) -> None:
    """What most sides do before their first instruction."""


@dataclass(frozen=True)
class Start:
    """Where a side begins: an instruction, and what is done to the copy of the frame before."""

    index: int
    prepare: Callable[[Frame], Any] = nothing


@dataclass(eq=False)
class Side:
    """One way through the code, run to its end; `changes`: older objects as they are there; `said`: what it prints."""

    body: Body
    frame: Frame
    changes: dict[Value, undo_log.State]
    said: list[Effect] = field(default_factory=list)

    @property
    def place(self) -> int:
        """Where it ended: an instruction, or RETURNED."""
        return self.frame.index if self.frame.result is None else RETURNED


@dataclass(eq=False)
class Fork:
    """Two sides, taken as `condition` is true or false; `asked`: the number of Python's that it is, if it is one."""

    condition: NumberV
    yes: Side
    no: Side
    asked: ScalarV | None = None

    @property
    def since(self) -> int:
        return min(self.yes.body.serial, self.no.body.serial)


@dataclass(eq=False)
class Leaf:
    """An end of a tree of Forks; `changes` are all those on the way to it."""

    side: Side
    changes: dict[Value, undo_log.State]


class OneSide(Exception):
    """Only one side of an `if` can be captured, yes or the other: what stopped the other."""

    def __init__(self, yes: bool, stopped: Break | Raised) -> None:
        super().__init__(yes)
        self.yes, self.stopped = yes, stopped


def may_convert(cap: Capture, frame: Frame, condition: Value) -> bool:
    """Whether eager JAX would see a value here. Where JAX traces, a loop's counter is one still."""
    if cap.lessons.plain_ifs or id(frame.code.code) in cap.lessons.endless:
        return False
    node = node_of(condition)
    return is_graph_number(condition) or (not cap.under_trace if node is None else has_value(cap, node))


def decide(cap: Capture, frame: Frame, condition: NumberV, yes: Start, no: Start,
           asked: ScalarV | None = None) -> int | None:
    """Runs both sides from the frame's instruction; the offset where they meet, or None after setting
    `frame.result` or `frame.fork`. Raises OneSide, Differs (Break, ...) where an `if` cannot be a `cond`."""
    _watch_calls(cap, frame)
    meet = meeting_place(frame.code, frame.index, frame.stops)
    stops = frame.stops if meet == EXIT else frame.stops | {meet}
    one, other = (_explored(cap, frame, start, stops, says=asked is None) for start in (yes, no))
    if isinstance(one, Exception):
        raise Differs("neither side can be captured") if isinstance(other, Exception) else OneSide(False, one)
    if isinstance(other, Exception):
        raise OneSide(True, other)
    if may_part(cap):
        raise Differs("where the arrays live")
    return conclude(cap, frame, Fork(condition, one, other, asked))


def _watch_calls(cap: Capture, frame: Frame) -> None:
    """A walk down a tree that arrays describe has no end where both sides are run: Python has to decide each step."""
    calls, outer = 0, frame.parent
    while outer is not None and calls < MANY_CALLS:
        calls, outer = calls + (outer.code.code is frame.code.code), outer.parent
    if calls == MANY_CALLS and stack_used() > MAX_STACK:
        cap.lessons.endless.add(id(frame.code.code))
        raise Restart


def _explored(cap: Capture, frame: Frame, start: Start, stops: frozenset[int], says: bool) -> Side | Break | Raised:
    """A side, or what stops capture there."""
    try:
        return explore(cap, frame, start, stops, says=says)
    except (Break, Raised) as stopped:
        return stopped.with_traceback(None)


def conclude(cap: Capture, frame: Frame, fork: Fork) -> int | None:
    """Brings the frame to where the fork's leaves are, if they are all in one place."""
    places = {leaf.side.place for leaf in leaves(fork)}
    if len(places) == 1:
        _say(cap, fork)
        merge(cap, frame, fork)
        return None if frame.result is not None else frame.code.instrs[places.pop()].offset
    if not frame.stops or fork.asked is not None or fork.yes.said or fork.no.said:
        raise Differs("the sides do not meet")
    frame.fork = fork
    return None


def _say(cap: Capture, fork: Fork) -> None:
    """Notes what the sides print, each if it is the one taken: asked outside of all bodies."""
    for side, wanted in ((fork.yes, True), (fork.no, False)):
        if side.said and not may_hoist(cap, fork.condition.node, from_sides=True):
            raise Differs("a side that prints, where only the body at hand has the condition")
        for effect in side.said:
            asked = NumberV(hoisted(cap, fork.condition.node), fork.condition.aval, bool)
            operands = (asked, Real(wanted), Real(effect.act), *effect.operands)
            cap.effects.calls.append(replace(effect, act=runtime.when, operands=operands))


# --- running a side


def copied(frame: Frame, start: Start, stops: frozenset[int]) -> Frame:
    return replace(frame, locals=dict(frame.locals), cells=dict(frame.cells), stack=list(frame.stack),
                   handling=list(frame.handling), loops={}, index=start.index, stops=stops)


def explore(cap: Capture, frame: Frame, start: Start, stops: frozenset[int], body: Body | None = None,
            says: bool = False) -> Side:
    """Runs a copy of the frame from `start` to one of `stops`, to its return or to a fork. says: it may print."""
    body = body or Body.inside(cap, f"side_{start.index}", is_side=True)
    copy = copied(frame, start, stops)
    changes: dict[Value, undo_log.State] = {}
    calls, pending = len(cap.effects.calls), dict(cap.dropping.pending)
    outer, cap.current = cap.current, copy
    frame.running, copy.running = False, True
    cap.bodies.append(body)
    try:
        start.prepare(copy)
        run(cap, copy, cap.progress.steps + MAX_SIDE_STEPS)
    finally:
        changes.update(undo_log.take_back(body))
        said = cap.effects.take_back(calls)
        cap.dropping.pending = pending  # a generator that only the side has is nobody's behind it
        cap.current = outer
        frame.running, copy.running = True, False
        cap.bodies.pop()
    if copy.yielded is not None or list(map(id, copy.handling)) != list(map(id, frame.handling)):
        raise Differs("a side that yields or handles an exception")
    if said and not says:
        raise Break("effect", "print()")
    return Side(body, copy, changes, said)


def run(cap: Capture, frame: Frame, limit: int) -> None:
    while frame.index not in frame.stops and frame.result is None and frame.yielded is None and frame.fork is None:
        step(cap, frame)
        if cap.progress.steps > limit:
            raise Differs("a side that is too long")


def leaves(tree: Side | Fork, above: dict[Value, undo_log.State] | None = None) -> Iterator[Leaf]:
    """The ends of a tree of sides, in order."""
    if isinstance(tree, Fork):
        yield from leaves(tree.yes, above)
        yield from leaves(tree.no, above)
        return
    changes = {**(above or {}), **tree.changes}
    if tree.frame.fork is not None:
        yield from leaves(tree.frame.fork, changes)
    else:
        yield Leaf(tree, changes)


# --- joining the sides


def merge(cap: Capture, frame: Frame, fork: Fork) -> None:
    """Brings the frame to the place where all leaves are, with a `cond` node for what differs."""
    ends = list(leaves(fork))
    if fork.asked is not None and len(ends) > 2:
        raise Differs("sides that end in several places")
    condition = fork.condition if len(ends) == 2 else None
    join = Join(cap, fork.since, [leaf.changes for leaf in ends], fork.asked, condition)
    found = joined(join, frame, [leaf.side for leaf in ends])
    for slot, node in zip(join.slots, chosen(cap, fork, join.slots)):
        slot.merged.node = node
    found.settle(frame)


@dataclass(eq=False)
class Joined:
    """A frame's state for all of several ways that are in one place."""

    locals: dict[str, Value]
    stack: list[Value]
    result: Value | None
    changes: list[Callable[[], None]]
    changed: list[Value]
    index: int

    def settle(self, frame: Frame) -> None:
        frame.locals, frame.stack, frame.result = self.locals, self.stack, self.result
        frame.index = self.index
        for change in self.changes:
            change()


def joined(join: Join, frame: Frame, sides: list[Side]) -> Joined:
    """The one state of frames that have all returned, or are all before the same instruction."""
    older = list(join.in_place())
    changed, changes = [v for v, _ in older], [change for _, change in older]
    index = sides[0].frame.index
    if sides[0].place == RETURNED:
        result = join.value([side.frame.result for side in sides])
        return Joined(frame.locals, frame.stack, result, changes, changed, index)
    names = live(frame.code, index)
    found = {n: join.value([side.frame.locals.get(n) for side in sides])
             for n in dict.fromkeys(n for side in sides for n in side.frame.locals) if n in names}
    if len({len(side.frame.stack) for side in sides}) != 1:
        raise Differs("stacks")
    stack = [join.value(list(row)) for row in zip(*(side.frame.stack for side in sides))]
    return Joined(found, stack, None, changes, changed, index)


# --- nodes


def chosen(cap: Capture, fork: Fork, slots: list[Slot]) -> list[Node]:
    """The nodes of the slots: a `cond` and its results."""
    if not slots:
        return []
    ways = iter(range(1 << 30))
    return _choose(cap, fork, slots, ways)


def _choose(cap: Capture, fork: Fork, slots: list[Slot], ways: Iterator[int]) -> list[Node]:
    sides = [close(cap, side.body, lambda side=side: values_of(cap, side, slots, ways))  # type: ignore[misc]
             for side in (fork.yes, fork.no)]
    avals = tuple(slot.aval for slot in slots)
    node = emit_node(cap, either, ((localise(cap, fork.condition.node), *sides), {}), avals, "cond")
    return [emit_node(cap, operator.getitem, ((node, i), {}), aval, f"cond_{i}") for i, aval in enumerate(avals)]


def either(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """The target of these nodes: `lax.cond` where JAX traces them; run eagerly, what Python's `if` does."""
    if isinstance(condition, jax.core.Tracer) and not is_concrete(condition):
        return jax.lax.cond(condition, yes, no)
    return jax.tree.map(jnp.asarray, (yes if condition else no)())


def values_of(cap: Capture, side: Side, slots: list[Slot], ways: Iterator[int]) -> tuple[Any, ...]:
    """What a side gives for the slots, as arguments in its own body."""
    if side.frame.fork is not None:
        return tuple(_choose(cap, side.frame.fork, slots, ways))
    way = next(ways)
    return tuple(value(cap) if callable(value) else cap.node_argument(value)
                 for value in (slot.values[way] for slot in slots))


def close(cap: Capture, body: Body, result: Callable[[], Any], own: tuple[Node, ...] = ()) -> Closure:
    """A body as a function of its `own` placeholders and of nothing else but what it captures."""
    cap.bodies.append(body)
    try:
        graph = body.builder.finish(result())
    finally:
        cap.bodies.pop()
    order = {n: i for i, n in enumerate((*body.captured.values(), *own))}
    places = sorted(graph.placeholders, key=order.__getitem__)
    rest = [n for n in graph.nodes if n.op != "placeholder"]
    return Closure(Graph((*places, *rest), graph.consts, graph.name),
                   tuple(localise(cap, n) for n in body.captured))

