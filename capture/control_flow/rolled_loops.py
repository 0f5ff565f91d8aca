"""Long loops of Python as one node: `fori_loop` for `range` and the rows of arrays, `while_loop` for `while`.

A loop whose condition Python knows is captured iteration by iteration. Where that grows too long
(`long_loops`), capture starts over, and the loop becomes one node: what an iteration carries
must keep its kind as in `loops`, its Python ints become numbers of the Graph. The first iterations may
differ; they stay what they are. A loop that is no node after all runs in Python, its body compiled.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.arithmetic import graph_scalars as numbers
from dynacomp.capture.arithmetic.moving_slices import Clipped
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.subgraphs import localise
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.control_flow_graph import LOOP_ENDS, landing, loop_of, loops
from dynacomp.capture.control_flow.appended_rows import appended_rows, fill
from dynacomp.capture.control_flow.branches import Start, close, leaves, values_of
from dynacomp.capture.control_flow.iterations import Again, Changed, Iteration, Place, Plan, bound_names, settled
from dynacomp.capture.control_flow.loop_numbers import LoopNumbers
from dynacomp.capture.control_flow.loops import turned
from dynacomp.capture.control_flow.merge import Differs, Slot
from dynacomp.capture.control_flow.numbers_behind import handed_on, last_numbers
from dynacomp.capture.graph.avals import aval_of
from dynacomp.capture.graph.graph import Node, nodes_in
from dynacomp.capture.graph.size_scope import Relation
from dynacomp.capture.graph.sized_calls import fori_of_length, rows_of_length
from dynacomp.capture.graph.sizes import bounds, is_symbolic
from dynacomp.capture.graph.sizes import names as names_of
from dynacomp.capture.kinds import generator_loops
from dynacomp.capture.kinds.iteration import zipped
from dynacomp.capture.numbers import size_values
from dynacomp.capture.rows import alike_items, stored_rows
from dynacomp.capture.rows.grown_lists import Growing, rows_aval
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.tracing.donors import give_up_first
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.iterators import CountIterV, counters
from dynacomp.capture.values.questions import is_graph_number, is_stream
from dynacomp.capture.values.value import NotConstant, Value

FEW_ROUNDS = 4096  # a loop over a symbolic size may go so many rounds, at least, before it is captured again
MAX_TRIES = 5  # iterations after which a loop must have become like the next one
REFUSED = (Break, Raised, Differs, NotConstant)


def wanted(cap: Capture, frame: Frame, header: int) -> bool:
    """Whether a loop is to become one node, and may still."""
    key = (id(frame.code.code), header)
    return key in cap.lessons.rolled and key not in cap.lessons.unrolled


def tried(cap: Capture, frame: Frame, header: int) -> None:
    """Notes that a loop could not become a node from here."""
    key = (id(frame.code.code), header)
    cap.progress.peels[key] = cap.progress.peels.get(key, 0) + 1
    if cap.progress.peels[key] >= MAX_TRIES:
        cap.lessons.unrolled.add(key)


# --- for ... in range(...), and what goes on as ranges do: the rows of arrays, zip and enumerate of them


def roll(cap: Capture, frame: Frame, instr: Instruction, it: Value, counts: list[CountIterV]) -> None:
    """Runs all that is left of an iterator as one node, if that can be done and is asked for."""
    rounds = rounds_of(cap, counts)
    if rounds is None or not (is_symbolic(rounds) or wanted(cap, frame, instr.index)) or given_up(
            cap, frame, instr.index):
        return
    body = min((b for b in loops(frame.code) if instr.index in b), key=len, default=None)
    if body is None or any(frame.code.instrs[k].name == "YIELD_VALUE" for k in body):
        return generator_loops.learn(cap, frame)  # its frame stands still in each round
    names = bound_names(frame.code, body, instr.index + 1, frame.code.at[instr.argval] + LOOP_ENDS)
    firsts = [size_values.expr_of(c.current) for c in counts]
    try:
        rounds = _rolled(lambda many, changed: For(cap, frame, names, it, changed, instr.index, many), counts, rounds)
    except REFUSED as error:
        if isinstance(error, Clipped) and cap.bodies:
            raise  # it may be the last round of a loop around this one
        generator_loops.give_up(cap, it, error)
        return tried(cap, frame, instr.index)
    ends = [first + rounds * c.step.value for first, c in zip(firsts, counts)]
    for count, end in zip(counts, ends):
        mutating(cap, count)
        count.current = Const(end) if isinstance(end, int) else size_values.of_expr(cap, end)


def _rolled(loop: Callable[[Any, Changed], For], counts: list[CountIterV], rounds: Any) -> Any:
    """Runs so many rounds as one node; how many these were, which may be one less, left to be captured by itself."""
    try:
        settled(lambda changed: loop(rounds, changed).emit(), counts)
    except Clipped:
        rounds = rounds - 1
        settled(lambda changed: loop(rounds, changed).emit(), counts)
    return rounds


def rounds_of(cap: Capture, counts: list[CountIterV]) -> Any:
    """How many rounds are left of an iterator that ends with the first of these counts and may become a node, an int or
    a Size: None for one that has no two rounds, or is not counted to a size, or from one, by constant steps."""
    if not all(size_values.is_int(x) for c in counts for x in (c.current, c.stop or c.current)):
        return None
    if not all(is_exactly(c.step, int) and c.step.value for c in counts):
        return None
    lengths = [length_of(c) for c in counts if c.stop is not None]
    if not lengths or any(at_hand(cap, n) < 2 for n in lengths):
        return None
    length: Any = lengths[0]
    for other in lengths[1:]:
        length = length if other is length or length <= other else other
    return length if isinstance(length, int) or is_bounded(cap, length) else None


def length_of(it: CountIterV) -> Any:
    """How many numbers are left of a range with an end, if any are."""
    first, last, step = size_values.expr_of(it.current), size_values.expr_of(it.stop), it.step.value
    return (last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step


def at_hand(cap: Capture, length: Any) -> int:
    return length if isinstance(length, int) else cap.sizes.scope.value(length)


def is_bounded(cap: Capture, length: Any) -> bool:
    """Guards that there are two rounds, and not so many that the numbers of the loop go too far."""
    most = max(FEW_ROUNDS, 2 * at_hand(cap, length))
    if not (length >= 2 and length <= most):
        return False
    for name in names_of(length):
        cap.sizes.scope.bound(name, None, most)
        room: Any = most - cap.sizes.scope.symbol(name)  # type: ignore[operator]
        cap.guards.add("relation", None, Relation("ge", room, True))
    return bounds(length)[1] <= 2 * most


def given_up(cap: Capture, frame: Frame, header: int) -> bool:
    """Whether the loop was found to be no node."""
    return (id(frame.code.code), header) in cap.lessons.unrolled


class For(Iteration):
    """An iteration over what counts give."""

    keeps_rounds = True

    def __init__(self, cap: Capture, frame: Frame, names: tuple[str, ...], it: Value, changed: Changed,
                 header: int, rounds: Any) -> None:
        self.rounds = rounds
        firsts = {id(c): c.current for c in counters(it)}

        def go_on(copy: Frame) -> None:
            copy.push(item_of(cap, it, lambda c, item: self.found(firsts[id(c)], c.step.value, item)))

        plan = Plan(names, Start(header + 1, go_on), frozenset({header}), frame.stops, 0)
        super().__init__(cap, frame, plan, changed, "loop_body")
        self.count = self.state.place(aval_of(0), "round")
        self.body.donated = {}

    def found(self, first: Value, step: int, item: NumberV) -> None:
        """Notes what a count gives in each round, and between which numbers all of that lies."""
        self.numbers.element(first, step, item)
        low, high = self.reached(first, step, -1)
        item.low, item.high = max(item.low, low), min(item.high, high)

    def reached(self, first: Value, step: int, more: int) -> tuple[int, int]:
        """Between which numbers a count lies in as many rounds as there are, and so many more."""
        last = ((bounds(self.rounds)[1] if is_symbolic(self.rounds) else self.rounds) + more) * step
        return numbers.least_of(first) + min(0, last), numbers.most_of(first) + max(0, last)

    def range_of(self, it: CountIterV) -> tuple[int, int] | None:
        whole = super().range_of(it)
        if whole is None:
            return None
        low, high = self.reached(it.current, it.step.value, 0)
        return max(low, whole[0]), min(high, whole[1])

    @functools.cached_property
    def numbers(self) -> LoopNumbers:
        return LoopNumbers(self.cap, self.rounds, self.state)

    def inside(self, place: Place, v: Value, bounds: tuple[int, int] | None = None) -> Value:
        handed_on = place in self.changed.numbers
        return self.numbers.handed_on(self.cap.realize(v)) if handed_on else super().inside(place, v, bounds)

    def tail(self, v: ListV, count: int) -> list[Value]:
        target = self.changed.stored.get(v)
        found = super().tail(v, count) if target is None else stored_rows.tail(self.cap, v, target, count)
        if found is None:
            raise Differs("what stands before the rows that a loop stores")
        return found

    def front_of(self, v: ListV, tail: list[Value], hidden: list[Any]) -> Growing:
        target = self.changed.stored.get(v)
        if target is None:
            return super().front_of(v, tail, hidden)
        found = stored_rows.storing(self.cap, v, target, self.rounds, tail,
                                    hidden) if target.level == self.body.level else None
        if found is None:
            raise Differs("rows that a loop stores in a list of which too little is known")
        return found

    def emit(self) -> None:
        """The node, and what is behind the loop. Where two floats met of which Python did not know which one a round
        takes, the next attempt has it compute what decides that, too."""
        try:
            self.emit_node()
        except REFUSED:
            asked = set() if self.body.undecided is None else made_of(self.body.undecided)
            deciding = tuple(place for place, v in self.places() if is_graph_number(v) and v.node in asked)
            if not deciding:
                raise
            raise Again(Changed([], numbers=deciding)) from None

    def emit_node(self) -> None:
        cap = self.cap
        with self.begun():
            root = self.run()
            ends = list(leaves(root))
            if any(leaf.side.place not in self.plan.again for leaf in ends):
                raise Differs("a way out of the body")
            again = [True] * len(ends)
            self.check(ends, again)
            known, last = handed_on(self, self.numbers, ends), last_numbers(self, self.numbers, ends)
            slots = self.carried(ends, again)
            shapes, appended = appended_rows(self, ends)
            rows = [*of_class(Slot, appended)]
            closure = close(cap, self.body, lambda: values_of(cap, root, [*slots, *rows], iter(range(len(ends)))),
                            (self.count, *(slot.merged.node for slot in slots), *self.numbers.placeholders()))
        length = self.rounds
        avals = tuple(slot.aval for slot in slots) + tuple(rows_aval(length, slot) for slot in rows)
        initial = tuple(cap.node_argument(c.initial) for c in self.state.carried)
        give_up_first(cap, self.body, [(c.initial, c.inside) for c in self.state.carried],
                      closure.graph.nodes[-1].args[0])
        tables = tuple(zip(*((localise(cap, table), kind) for kind, table in self.numbers.tables())))
        plain = fori_of_length if is_symbolic(length) else jax.lax.fori_loop
        loop = rows_of_length if rows or tables else plain
        node = emit_node(cap, loop, ((0, length, closure, initial, *tables), {}), avals, "fori_loop")
        nodes = [emit_node(cap, operator.getitem, ((node, i), {}), aval, f"loop_{i}") for i, aval in enumerate(avals)]
        self.settle(nodes[:len(slots)], known)
        stacks = [ArrayV(n, aval) for n, aval in zip(nodes[len(slots):], avals[len(slots):])]
        fill(self, length, shapes, appended, stacks)
        self.frame.locals.update(last)


def made_of(node: Node) -> set[Node]:
    """All nodes that one is computed from."""
    found, left = {node}, [node]
    while left:
        more = set(nodes_in((left[0].args, dict(left.pop(0).kwargs)))) - found
        found |= more
        left += more
    return found


def item_of(cap: Capture, it: Value, note: Callable[[CountIterV, NumberV], None]) -> Value:
    """What an iterator that is made of counts gives next, where it is not at its end; `note` hears of its numbers."""
    if isinstance(it, CountIterV):
        item = numbers.element(it)
        mutating(cap, it)
        note(it, item)  # which bounds it, and so the next one
        it.current = numbers.counted(cap, it, item)
        return item
    assert is_stream(it)
    if it.kind == "rows":
        return alike_items.row(cap, it, item_of(cap, it.parts[0], note))
    found = [item_of(cap, part, note) for part in it.parts]
    if it.kind == "map":
        assert it.fn is not None
        return cap.call(it.fn, found)
    items = found[::-1] if it.kind == "enumerate" else found
    return zipped(it, items)


# --- while


def roll_test(cap: Capture, frame: Frame, condition: bool, yes: Start, no: Start) -> int | None:
    """Where a `while` ends that has become a node; None where it has not."""
    if cap.under_trace:
        return None
    loop = loop_of(frame.code, frame.index)
    if loop is None or condition != (landing(frame.code, yes.index) == loop.stay):
        return None
    if not wanted(cap, frame, loop.stay):
        return None
    try:
        return turned(cap, frame, loop, Const(condition), yes, no)
    except REFUSED:
        tried(cap, frame, loop.stay)
        return None
