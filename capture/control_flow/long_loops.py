"""Long Python loops are not unrolled: they become one node, or Python runs them, and their body is compiled once.

Each time that a loop comes round (`machine.step`, at its back edge or `FOR_ITER`), what it has cost so far is looked
at. A counted loop (a range, the rows of an array) says how many rounds are to come, so that after two of them it is
known what it would cost. Attempts to make it a node are `rolled_loops`; loops that Python runs are `python_loops`.

    for t in range(60):             # judged when two rounds have run 2 x 80 operations: a node
        x = x - 0.1 * denoise(x, t)
"""

from __future__ import annotations

import inspect
from typing import NoReturn

from dynacomp.capture.base.errors import Break, Restart
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.resume import goes_on_behind
from dynacomp.capture.control_flow import growing_arrays
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.lessons import Lesson
from dynacomp.capture.symbolic.machine import Capture, Frame, Loop
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import is_exactly
from dynacomp.capture.values.iterators import CountIterV, GeneratorV, counters
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.questions import is_object, is_opaque, is_stream, is_suspended
from dynacomp.capture.values.value import Value, next_serial

MAX_UNROLLED_OPS = 4_000  # array operations of one unrolled loop
LONG_ROUNDS, LONG_OPS = 8, 300  # a counted loop with both becomes one node, if it may: that is compiled sooner
MAX_ROUNDS, MAX_LOOP_OPS = 48, 100  # a loop with more of both is not unrolled
MAX_ITEMS = 256  # the same for loops over objects that are given one by one
MAX_LISTED, MAX_LISTED_OPS = 2_048, 12_000  # for loops over the items of containers, such as the leaves of a model
MAX_LOOP_STEPS = 1_000_000  # instructions of a loop with array operations that has more than MAX_ROUNDS rounds
MAX_IDLE_STEPS = 100_000  # instructions of a loop that makes no array operation: such a loop runs in Python


def watch_loop(cap: Capture, frame: Frame, instr: Instruction) -> None:
    """A long loop is not unrolled: it becomes one node (see `rolled_loops`), or Python runs it, and its body is
    compiled once.

    The lesson is to break where the loop began (for a loop of a callee: at the call, so that the
    callee is captured by itself)."""
    if instr.name == "JUMP_BACKWARD" and is_for(frame, instr):  # whose FOR_ITER is next, and is looked at
        return
    now = cap.progress
    loop = frame.loops.get(instr.index)
    if loop is None:
        loop = frame.loops[instr.index] = Loop(
            now.top_step, now.captured_ops, now.steps, len(cap.sizes.scope.relations),
            frozenset(cap.numbers.decisions), entered=(0, now.captured_ops))
    loop.rounds += 1
    ops = cap.progress.captured_ops - loop.ops
    items = is_over_items(frame, instr)
    idle = not ops and not items and cap.progress.steps - loop.steps > MAX_IDLE_STEPS
    begun, made = since_entered(frame, instr, loop, cap.progress.captured_ops)
    rounds = rounds_of(frame, instr, begun)
    expected = made // (begun - 1) * rounds if begun > 2 else made
    given, loop.serial = gives_objects(frame, loop), next_serial()
    most, most_ops = limits(frame, instr, items)
    slow = bool(ops) and rounds > MAX_ROUNDS and not cap.bodies and _steps(cap, loop, rounds - begun) > MAX_LOOP_STEPS
    if is_going_on(frame, instr) and (loop.rounds > 1 or goes_on_behind(frame.code.code, instr.index)):
        leave(cap, loop, "rounds")
    if cap.may_break and growing_arrays.is_too_long(frame, instr, loop, expected):
        leave(cap, loop, "growing")
    if instr.name != "FOR_ITER" and ops and len(cap.numbers.decisions) > len(loop.decisions):
        _end_by_sizes(cap, loop)
    if instr.name != "FOR_ITER" and ops and loop.relations < len(cap.sizes.scope.relations):
        _roll(cap, (id(frame.code.code), frame.code.at[instr.argval]))  # a `while` that sizes end
    if rounds > begun and rounds >= LONG_ROUNDS and expected > LONG_OPS and not given:
        _roll(cap, (id(frame.code.code), instr.index))
    if slow or max(ops, expected) > most_ops or loop.rounds > most and (ops > MAX_LOOP_OPS or idle):
        key = (id(frame.code.code), instr.index if instr.name == "FOR_ITER" else frame.code.at[instr.argval])
        if ops:
            _roll(cap, key)
        if cap.bodies:
            raise Break("too_long", f"{loop.rounds} rounds of a loop in a transformed function")
        leave(cap, loop, "long_loop", f"{max(rounds, loop.rounds)} rounds and more")


def limits(frame: Frame, instr: Instruction, items: bool) -> tuple[int, int]:
    """So many rounds, and array operations, a loop may have and be unrolled."""
    if is_for(frame, instr) and is_listed(frame.stack[-1]):
        return MAX_LISTED, MAX_LISTED_OPS
    return MAX_ITEMS if items else MAX_ROUNDS, MAX_UNROLLED_OPS


def _steps(cap: Capture, loop: Loop, left: int) -> int:
    """The instructions that a loop will have run, where so many rounds are left."""
    steps = cap.progress.steps - loop.steps
    return steps + steps // max(1, loop.rounds - 1) * left


def _end_by_sizes(cap: Capture, loop: Loop) -> None:
    """The next attempt has the ints that end a `while` as sizes, so that it may become a node."""
    asked = of_class(S.Source, cap.numbers.decisions - loop.decisions)
    found = [s for d in asked for s in size_values.may_become(cap, ScalarV(0, source=d))]
    if found:
        cap.lessons.sized.add(*found)
        raise Restart


def leave(cap: Capture, loop: Loop, reason: str, detail: str = "") -> NoReturn:
    """Python runs the loop: the next attempt breaks where it began."""
    cap.lessons.breaks.setdefault(loop.step, Lesson(loop.step, reason, detail, cap.where()))
    raise Restart()


def _roll(cap: Capture, key: tuple[int, int]) -> None:
    """The next attempt makes a node of a loop, if it may."""
    if key not in cap.lessons.rolled:
        cap.lessons.rolled.add(key)
        raise Restart()


def since_entered(frame: Frame, instr: Instruction, loop: Loop, ops: int) -> tuple[int, int]:
    """The rounds that a loop has begun, and the operations made, since it was entered last: one in another loop is
    entered in each round of that."""
    it = frame.stack[-1] if instr.name == "FOR_ITER" else None
    if it is not loop.iterator:
        loop.iterator, loop.entered = it, (loop.rounds - 1, ops)
    return loop.rounds - loop.entered[0], ops - loop.entered[1]


def rounds_of(frame: Frame, instr: Instruction, begun: int) -> int:
    """How many rounds a loop will begin that has begun so many, as far as that is known: a `while` may end with this
    one."""
    counts = ends(frame.stack[-1]) if instr.name == "FOR_ITER" else []
    left = [len(range(c.current.value, c.stop.value, c.step.value)) for c in counts
            if all(is_exactly(x, int) for x in (c.current, c.stop, c.step)) and c.step.value]
    return begun - 1 + max(1, min(left, default=1))


def ends(it: Value) -> list[CountIterV]:
    """The counts with which an iterator ends, or at the latest: `zip(range(steps), batches)` of a generator does."""
    parts = it.parts if is_stream(it) and it.kind == "zip" else []
    return counters(it) or ([c for part in parts for c in counters(part)] if all(
        counters(part) or isinstance(part, GeneratorV) for part in parts) else [])


def is_going_on(frame: Frame, instr: Instruction) -> bool:
    """Whether a loop ran in Python when the frame was resumed: a round that has come to its end without another
    break ends there, so that all such rounds are compiled once."""
    source = frame.stack[-1].source if instr.name == "FOR_ITER" and frame.parent is None else None
    return isinstance(source, S.Local) and source.name.startswith("$s")


def is_over_items(frame: Frame, instr: Instruction) -> bool:
    """Whether the loop that `instr` belongs to is a `for` over anything but numbers that are counted;
    what a generator counts are mostly the items that it gives."""
    if frame.code.code.co_flags & inspect.CO_GENERATOR:
        return True
    return is_for(frame, instr) and not is_counted(frame.stack[-1])


def is_for(frame: Frame, instr: Instruction) -> bool:
    """Whether the loop that `instr` belongs to is a `for`, whose iterator lies on the stack."""
    head = instr if instr.name == "FOR_ITER" else frame.code.instrs[frame.code.at[instr.argval]]
    return head.name == "FOR_ITER"


def is_listed(it: Value) -> bool:
    """Whether an iterator goes over the items of a container, or of one and others beside it: there are so many, no
    more."""
    if is_stream(it):
        return it.kind in ("zip", "enumerate") and any(map(is_listed, it.parts))
    return not is_suspended(it) and not is_opaque(it) and not is_counted(it) and not counters(it)


def gives_objects(frame: Frame, loop: Loop) -> bool:
    """Whether a generator has given out an object that it has not made in this round, such as one of a model's layers:
    what a loop does with it is no node."""
    given = frame.gave
    return given is not None and is_object(given) and (given.source is not None or given.serial < loop.serial)


def is_counted(it: Value) -> bool:
    """Numbers, or the batches of a generator that exists: there may be very many."""
    many = kind(it).many
    return many is not None and many(it)


OPERATIONS.watch_loop = watch_loop
