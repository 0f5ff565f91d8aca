"""`while` on an array, and `for` with a `break` that depends on one, as a `while_loop` node.

The loop is turned so that it begins with the test at hand. What an iteration may change is carried:
the names that the loop binds, and the older objects that it changes. They are replaced by
placeholders, and the body is run symbolically once, from the test back to it. That is the loop, if
every carried array keeps its shape, dtype and weak type, and everything else stays the same object:

    carried Python ints become numbers of the Graph (see `graph_scalars`), which come back as ints;
    ways out of the body (`break`, `return`) set a flag that ends the loop, and what the program has
    there is carried beside; after the loop a `cond` tells them from the test that failed.

Where the first iteration differs from the others (a weak type that becomes strong, `None` that
becomes an array), it is run before the loop, as one side of an `if`.

In the function of a gradient it is a `scan` of limited length instead (see `limited_loops`).
"""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp

from dynacomp.capture.arithmetic.operators import as_bool, negation
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bodies.subgraphs import Body
from dynacomp.capture.bytecode.control_flow_graph import EXIT, Loop, landing, meeting_place
from dynacomp.capture.control_flow.branches import (
    Fork,
    Joined,
    Leaf,
    OneSide,
    Side,
    Start,
    close,
    conclude,
    copied,
    decide,
    explore,
    joined,
    leaves,
    values_of,
)
from dynacomp.capture.control_flow.iterations import Changed, Iteration, Plan, bound_names, settled
from dynacomp.capture.control_flow.limited_loops import emit_limited
from dynacomp.capture.control_flow.merge import Differs, Join, Slot
from dynacomp.capture.graph.avals import Aval, blank
from dynacomp.capture.graph.graph import Builder, Closure, Node
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values.computed import NumberV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.value import NotConstant, Value

PEELS, MAX_NESTED = 2, 24  # iterations run before the loop; those of a loop that stays a nest of `cond`s


def convert(cap: Capture, frame: Frame, loop: Loop, condition: NumberV, yes: Start, no: Start) -> int | None:
    """Brings the frame behind the loop; raises Differs (Break, ...) where it cannot be one node."""
    if not _is_finite(frame, loop) and not cap.under_trace:  # there it is a limited one
        cap.ask_at_once()
    key = (id(frame.code.code), frame.index)
    if key not in cap.lessons.unrolled:
        try:
            return turned(cap, frame, loop, condition, yes, no)
        except (Break, Raised, Differs, NotConstant, OneSide):
            pass
    depth = cap.progress.peels.get(key, 0)
    if depth >= PEELS:
        cap.lessons.unrolled.add(key)
    if depth >= (MAX_NESTED if _is_finite(frame, loop) else PEELS):
        raise Differs("a loop whose iterations are not alike")
    cap.progress.peels[key] = depth + 1
    try:
        return decide(cap, frame, condition, yes, no)
    finally:
        cap.progress.peels[key] = depth


def _is_finite(frame: Frame, loop: Loop) -> bool:
    return any(frame.code.instrs[i].name == "FOR_ITER" for i in loop.body)



def turned(cap: Capture, frame: Frame, loop: Loop, condition: Value, yes: Start, no: Start) -> int | None:
    """The loop as a node that begins at the test at hand."""
    code = frame.code
    stays = landing(code, yes.index) == loop.stay
    meet = meeting_place(code, frame.index, frame.stops)
    stops = frame.stops if meet == EXIT else frame.stops | {meet}
    names = bound_names(code, loop.body, loop.stay, loop.leave)
    plan = Plan(names, yes if stays else no, loop.tests, stops, 1)
    going = _if(cap, condition, stays)
    return settled(lambda changed: While(cap, frame, plan, changed, loop).emit(going, no if stays else yes))


class While(Iteration):
    """An iteration of a loop that is turned to begin at a test."""

    def __init__(self, cap: Capture, frame: Frame, plan: Plan, changed: Changed, loop: Loop) -> None:
        super().__init__(cap, frame, plan, changed, "while_body")
        self.loop = loop
        self.slots: list[Slot] = []
        self.exit: Joined | None = None

    def emit(self, going: Value, left: Start) -> int | None:
        """going: whether the loop is entered. left: where it goes on once a test has failed."""
        with self.begun():
            root = self.run()
            ends = list(leaves(root))
            again = [leaf.side.place in self.plan.again for leaf in ends]
            self.check(ends, again)
            exits = [leaf for leaf, goes_on in zip(ends, again) if not goes_on]
            self.slots = [self.going(ends, again), *self.carried(ends, again)]
            if exits:
                self.leave(exits, again)
            closure = close(self.cap, self.body, lambda: values_of(self.cap, root, self.slots, iter(range(len(ends)))),
                            tuple(slot.merged.node for slot in self.slots))
        return self.conclude(self.nodes(closure, going), left)

    # --- the columns of the loop's state: one value for each end of an iteration

    def flag(self, name: str, values: list[Any]) -> Slot:
        aval = Aval((), jnp.dtype(bool))
        return Slot(values, NumberV(self.state.place(aval, name), aval, bool))

    def going(self, ends: list[Leaf], again: list[bool]) -> Slot:
        def asked(leaf: Leaf) -> Any:
            return lambda cap: cap.node_argument(self.stays_with(leaf.side.frame.stack[-1], leaf.side.place))

        return self.flag("going", [asked(leaf) if goes_on else Const(False) for leaf, goes_on in zip(ends, again)])

    def stays_with(self, condition: Value, test: int) -> Value:
        """Whether the loop goes on with this condition at a test."""
        code = self.frame.code
        instr = code.instrs[test]
        jumps = landing(code, code.at[instr.argval]) == self.loop.stay
        return _if(self.cap, condition, jumps == ("IF_TRUE" in instr.name))

    def leave(self, exits: list[Leaf], again: list[bool]) -> None:
        """Slots for what the program has where a way out of the body ends."""
        if len({leaf.side.place for leaf in exits}) != 1:
            raise Differs("ways out to several places")
        join = Join(self.cap, self.body.serial, [leaf.changes for leaf in exits])
        self.exit = joined(join, self.frame, [leaf.side for leaf in exits])
        self.slots.append(self.flag("done", [Const(not goes_on) for goes_on in again]))
        for slot in join.slots:
            slot.merged.node = self.state.place(slot.aval, "result")
            values = iter(slot.values)
            inside = kind(slot.merged).carried.copy(slot.merged)
            self.slots.append(Slot([inside if goes_on else next(values) for goes_on in again], slot.merged))

    # --- the node

    def nodes(self, body: Closure, going: Value) -> list[Node]:
        """The `while_loop` and its results, one for each slot."""
        cap, avals = self.cap, tuple(slot.aval for slot in self.slots)
        initial = [going, *(c.initial for c in self.state.carried)]
        blanks = [_blank(cap, aval) for aval in avals[len(initial):]]
        values = tuple(cap.node_argument(v) for v in initial) + tuple(blanks)
        loop = _first(avals), body, values
        node = emit_limited(cap, self.frame, loop, avals) if cap.under_trace else emit_node(
            cap, jax.lax.while_loop, (loop, {}), avals, "while_loop")
        return [emit_node(cap, operator.getitem, ((node, i), {}), aval, f"while_{i}") for i, aval in enumerate(avals)]

    def conclude(self, nodes: list[Node], left: Start) -> int | None:
        """Brings the frame behind the loop. Where what follows it cannot be captured as one (the sides of `else`, say),
        the frame is as before: capture goes on from its first round."""
        before, held = self.frame.locals, {v: undo_log.snapshot(v) for v in self.held}
        self.settle(nodes[1:])
        try:
            return self.behind(nodes, left)
        except Exception:
            self.frame.locals = before
            for v, state in held.items():
                undo_log.restore(v, state)
            raise

    def behind(self, nodes: list[Node], left: Start) -> int | None:
        """Where the frame goes on, which has the loop's results."""
        frame, count = self.frame, len(self.state.carried)
        if self.exit is None:
            left.prepare(frame)
            return frame.code.instrs[left.index].offset
        for slot, node in zip(self.slots[count + 2:], nodes[count + 2:]):
            slot.merged.node = node
        done = NumberV(nodes[count + 1], self.slots[count + 1].aval, bool)
        exit_side = self.exit_side(self.exit, self.plan.stops)
        return conclude(self.cap, frame, Fork(done, exit_side, explore(self.cap, frame, left, self.plan.stops)))

    def exit_side(self, found: Joined, stops: frozenset[int]) -> Side:
        """The way out of the body, as a side of its own that has been run."""
        body = Body.inside(self.cap, "left", is_side=True)
        copy = copied(self.frame, Start(found.index), stops)
        for v in found.changed:
            undo_log.save(body, v)
        found.settle(copy)
        return Side(body, copy, undo_log.take_back(body))


def _if(cap: Capture, condition: Value, wanted: bool) -> Value:
    """`bool(condition) == wanted`."""
    return as_bool(cap, condition) if wanted else negation(cap, condition)


def _first(avals: tuple[Aval, ...]) -> Closure:
    """The loop's condition: the flag that its state begins with."""
    builder = Builder("while_cond")
    places = [builder.placeholder("state", aval) for aval in avals]
    return Closure(builder.finish(places[0]))


def _blank(cap: Capture, aval: Aval) -> Any:
    """Some array of that kind: what is carried beside a loop until it is set."""
    return emit_node(cap, blank, ((aval.shape, aval.dtype, aval.weak_type), {}), aval, "blank")
