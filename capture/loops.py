"""`while` on an array, and `for` with a `break` that depends on one, as a `while_loop` node.

The loop is turned so that it begins with the test at hand. What an iteration may change is carried:
the names that the loop binds, and the older objects that it changes. They are replaced by
placeholders, and the body is run symbolically once, from the test back to it. That is the loop, if
every carried array keeps its shape, dtype and weak type, and everything else stays the same object:

    carried Python ints become numbers of the Graph (see `numbers`), which come back as ints;
    ways out of the body (`break`, `return`) set a flag that ends the loop, and what the program has
    there is carried beside; after the loop a `cond` tells them from the test that failed.

Where the first iteration differs from the others (a weak type that becomes strong, `None` that
becomes an array), it is run before the loop, as one side of an `if`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from dynacomp.capture import heap
from dynacomp.capture.avals import Aval, blank
from dynacomp.capture.bodies import Body
from dynacomp.capture.branches import (
    Fork,
    Joined,
    Leaf,
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
from dynacomp.capture.carried import State
from dynacomp.capture.effects import mutating
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.flow import EXIT, Loop, landing, live, meeting_place, written
from dynacomp.capture.graph import Builder, Closure, Node
from dynacomp.capture.joins import Differs, Join, Slot
from dynacomp.capture.machine import Capture, Frame
from dynacomp.capture.nodes import emit_node
from dynacomp.capture.operators import as_bool, negation
from dynacomp.capture.values import ArrayV, Const, CountIterV, NotConstant, NumberV, Value

PEELS, MAX_NESTED = 2, 24  # iterations run before the loop; those of a loop that stays a nest of `cond`s
MAX_PASSES = 6  # to find the objects that a body changes


def convert(cap: Capture, frame: Frame, loop: Loop, condition: NumberV, yes: Start, no: Start) -> int | None:
    """Brings the frame behind the loop; raises Differs (Break, ...) where it cannot be one node."""
    key = (id(frame.code.code), frame.index)
    if key not in cap.lessons.unrolled:
        try:
            return Turned(cap, frame, loop, condition, yes, no).emit()
        except (Break, Raised, Differs, NotConstant):
            pass
    depth = cap.peels.get(key, 0)
    if depth >= PEELS:
        cap.lessons.unrolled.add(key)
    if depth >= (MAX_NESTED if _is_finite(frame, loop) else PEELS):
        raise Differs("a loop whose iterations are not alike")
    cap.peels[key] = depth + 1
    try:
        return decide(cap, frame, condition, yes, no)
    finally:
        cap.peels[key] = depth


def _is_finite(frame: Frame, loop: Loop) -> bool:
    return any(frame.code.instrs[i].name == "FOR_ITER" for i in loop.body)



# --- the loop, turned


class Again(Exception):
    """The body changes objects that were not carried."""


@dataclass(eq=False)
class Turned:
    """A loop that begins at one of its tests, with the condition there."""

    cap: Capture
    frame: Frame
    loop: Loop
    condition: NumberV
    yes: Start
    no: Start
    changing: list[Value] = field(default_factory=list)  # older objects that an iteration changes

    @property
    def stays(self) -> bool:
        """What the condition is while the loop goes on."""
        return landing(self.frame.code, self.yes.index) == self.loop.stay

    def emit(self) -> int | None:
        for _ in range(MAX_PASSES):
            try:
                return Iteration(self, Body.inside(self.cap, "while_body", is_side=True)).emit()
            except Again as again:
                self.changing += again.args[0]
        raise Differs("a body that changes ever more objects")

    def names(self) -> list[str]:
        """The local names that the loop binds and that somebody reads, in it or behind it."""
        code = self.frame.code
        bound = frozenset().union(*(written(code.instrs[i]) for i in self.loop.body))
        return sorted(bound & (live(code, self.loop.stay) | live(code, self.loop.leave)))


class Iteration:
    """One iteration, run symbolically from the test back to it."""

    def __init__(self, turned: Turned, body: Body) -> None:
        self.turned, self.cap, self.frame, self.body = turned, turned.cap, turned.frame, body
        self.state = State(self.cap, body)
        self.locals: dict[str, Any] = {}
        self.held: dict[Value, list[Any]] = {}  # changing object → what it holds when an iteration begins
        self.meet = meeting_place(self.frame.code, self.frame.index, self.frame.stops)
        self.written: dict[Value, list[heap.State]] = {}  # the states in which iterations leave those objects
        self.slots: list[Slot] = []
        self.exit: Joined | None = None

    def emit(self) -> int | None:
        if any(n not in self.frame.locals for n in self.turned.names()):
            raise Differs("a name that the first iteration binds")
        self.locals = {n: self.state.inside(self.frame.locals[n]) for n in self.turned.names()}
        with self.begun():
            root = self.run()
            ends = list(leaves(root))
            again = [leaf.side.place in self.turned.loop.tests for leaf in ends]
            self.check(ends, again)
            exits = [leaf for leaf, goes_on in zip(ends, again) if not goes_on]
            self.slots = [self.going(ends, again), *self.carried(ends, again)]
            if exits:
                self.leave(exits, again)
            closure = close(self.cap, self.body, lambda: values_of(self.cap, root, self.slots, iter(range(len(ends)))),
                            tuple(slot.merged.node for slot in self.slots))
        return self.conclude(self.nodes(closure))

    @contextmanager
    def begun(self) -> Iterator[None]:
        """The changing objects hold placeholders, as when an iteration begins."""
        before = {v: heap.snapshot(v) for v in self.turned.changing}
        try:
            for v in self.turned.changing:
                bounds = _range(v) if isinstance(v, CountIterV) else None
                self.held[v] = [self.state.inside(x, bounds) for x in heap.parts(v)[1]]
                heap.put(v, self.held[v])
            yield
        finally:
            for v, state in before.items():
                heap.restore(v, state)

    def run(self) -> Side:
        def prepare(copy: Frame) -> None:
            copy.locals.update(self.locals)

        start = self.turned.yes if self.turned.stays else self.turned.no
        stops = self.frame.stops | self.turned.loop.tests | (frozenset() if self.meet == EXIT else {self.meet})
        return explore(self.cap, self.frame, Start(start.index, prepare), stops, self.body)

    def check(self, ends: list[Leaf], again: list[bool]) -> None:
        """Every object that an iteration changes must be carried."""
        if not any(again):
            raise Differs("a loop that never goes round")
        older = [v for leaf, goes_on in zip(ends, again) if goes_on for v in leaf.changes
                 if v.serial < self.body.serial or getattr(v, "real", None) is not None]
        missing = [v for v in dict.fromkeys(older) if v not in self.held]
        if missing:
            raise Again(missing)
        self.written = {v: [leaf.changes[v] for leaf in ends if v in leaf.changes] for v in self.held}

    # --- the columns of the loop's state: one value for each end of an iteration

    def place(self, aval: Aval, name: str) -> Node:
        return self.state.place(aval, name)

    def flag(self, name: str, values: list[Any]) -> Slot:
        aval = Aval((), jnp.dtype(bool))
        return Slot(values, NumberV(self.place(aval, name), aval, bool))

    def going(self, ends: list[Leaf], again: list[bool]) -> Slot:
        def asked(leaf: Leaf) -> Any:
            return lambda cap: cap.node_argument(self.stays_with(leaf.side.frame.stack[-1], leaf.side.place))

        return self.flag("going", [asked(leaf) if goes_on else Const(False) for leaf, goes_on in zip(ends, again)])

    def stays_with(self, condition: Value, test: int) -> Value:
        """Whether the loop goes on with this condition at a test."""
        code = self.frame.code
        instr = code.instrs[test]
        jumps = landing(code, code.at[instr.argval]) == self.turned.loop.stay
        return _if(self.cap, condition, jumps == ("IF_TRUE" in instr.name))

    def carried(self, ends: list[Leaf], again: list[bool]) -> list[Slot]:
        columns = [self.made(leaf) if goes_on else [c.inside for c in self.state.carried]
                   for leaf, goes_on in zip(ends, again)]
        return [Slot(list(values), c.inside) for c, values in zip(self.state.carried, zip(*columns))]

    def made(self, leaf: Leaf) -> list[Any]:
        """What the carried arrays and numbers are at the end of an iteration."""
        found: list[Any] = []
        frame = leaf.side.frame
        for name, inside in self.locals.items():
            self.state.made(inside, frame.locals.get(name), found)
        for v, held in self.held.items():
            shape, _ = heap.parts(v)
            with heap.in_state(v, leaf.changes.get(v)):
                now, parts = heap.parts(v)
            if now != shape:
                raise Differs("a container that grows")
            for inside, part in zip(held, parts):
                self.state.made(inside, part, found)
        base = self.frame.stack
        if len(frame.stack) != len(base) + 1 or any(a is not b for a, b in zip(frame.stack, base)):
            raise Differs("the stack")
        return found

    def leave(self, exits: list[Leaf], again: list[bool]) -> None:
        """Slots for what the program has where a way out of the body ends."""
        if len({leaf.side.place for leaf in exits}) != 1:
            raise Differs("ways out to several places")
        join = Join(self.cap, self.body.serial, [leaf.changes for leaf in exits])
        self.exit = joined(join, self.frame, [leaf.side for leaf in exits])
        self.slots.append(self.flag("done", [Const(not goes_on) for goes_on in again]))
        for slot in join.slots:
            slot.merged.node = self.place(slot.aval, "result")
            values = iter(slot.values)
            inside = _inside(slot.merged)
            self.slots.append(Slot([inside if goes_on else next(values) for goes_on in again], slot.merged))

    # --- the node

    def nodes(self, body: Closure) -> list[Node]:
        """The `while_loop` and its results, one for each slot."""
        cap, avals = self.cap, tuple(slot.aval for slot in self.slots)
        going = _if(cap, self.turned.condition, self.turned.stays)
        initial = [going, *(c.initial for c in self.state.carried)]
        blanks = [_blank(cap, aval) for aval in avals[len(initial):]]
        values = tuple(cap.node_argument(v) for v in initial) + tuple(blanks)
        node = emit_node(cap, jax.lax.while_loop, ((_first(avals), body, values), {}), avals, "while_loop")
        return [emit_node(cap, operator.getitem, ((node, i), {}), aval, f"while_{i}") for i, aval in enumerate(avals)]

    def conclude(self, nodes: list[Node]) -> int | None:
        frame, count = self.frame, len(self.state.carried)
        results = {id(c.inside): c.after(node) for c, node in zip(self.state.carried, nodes[1:])}
        frame.locals = {**frame.locals, **{n: self.state.after(v, results) for n, v in self.locals.items()}}
        for v, held in self.held.items():
            mutating(self.cap, v)
            heap.put(v, [self.state.after(x, results) for x in held])
            heap.note_written(v, self.written.get(v, []))
        left = self.turned.no if self.turned.stays else self.turned.yes
        if self.exit is None:
            left.prepare(frame)
            return frame.code.instrs[left.index].offset
        for slot, node in zip(self.slots[count + 2:], nodes[count + 2:]):
            slot.merged.node = node
        stops = frame.stops if self.meet == EXIT else frame.stops | {self.meet}
        done = NumberV(nodes[count + 1], self.slots[count + 1].aval, bool)
        exit_side = self.exit_side(self.exit, stops)
        return conclude(self.cap, frame, Fork(done, exit_side, explore(self.cap, frame, left, stops)))

    def exit_side(self, found: Joined, stops: frozenset[int]) -> Side:
        """The way out of the body, as a side of its own that has been run."""
        body = Body.inside(self.cap, "left", is_side=True)
        copy = copied(self.frame, Start(found.index), stops)
        for v in found.changed:
            heap.save(body, v)
        found.settle(copy)
        return Side(body, copy, heap.take_back(body))


def _if(cap: Capture, condition: Value, wanted: bool) -> Value:
    """`bool(condition) == wanted`."""
    return as_bool(cap, condition) if wanted else negation(cap, condition)


def _inside(merged: Any) -> Any:
    """A copy of a merged Value, which keeps the placeholder when the other gets the loop's result."""
    if isinstance(merged, ArrayV):
        return ArrayV(merged.node, merged.aval)
    return NumberV(merged.node, merged.aval, merged.kind, merged.low, merged.high)


def _range(it: CountIterV) -> tuple[int, int] | None:
    """Between which numbers a range counts, its end included."""
    if not all(isinstance(v, Const) for v in (it.current, it.stop, it.step)) or it.stop.value is None:
        return None
    at, stop, step = it.current.value, it.stop.value, it.step.value
    return (min(at, stop), max(at, stop + step - 1)) if step > 0 else (min(at, stop + step + 1), max(at, stop))


def _first(avals: tuple[Aval, ...]) -> Closure:
    """The loop's condition: the flag that its state begins with."""
    builder = Builder("while_cond")
    places = [builder.placeholder("state", aval) for aval in avals]
    return Closure(builder.finish(places[0]))


def _blank(cap: Capture, aval: Aval) -> Any:
    """Some array of that kind: what is carried beside a loop until it is set."""
    return emit_node(cap, blank, ((aval.shape, aval.dtype, aval.weak_type), {}), aval, "blank")
