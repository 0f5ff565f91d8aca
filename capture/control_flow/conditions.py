"""Jumps on arrays, and on numbers that the Graph computes: what each becomes.

A test of a loop becomes a `while_loop` (see `loops`), one whose other side raises a check at the end
of the Graph (see `raising`), any other jump a `cond` (see `branches`); where none is sound, the graph
breaks before the jump, and Python decides.
"""

from __future__ import annotations

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.control_flow_graph import LOOP_ENDS, loop_of
from dynacomp.capture.control_flow import loops, rolled_loops
from dynacomp.capture.control_flow.branches import OneSide, Start, decide, may_convert
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.control_flow.raising import assume, may_assume, only_raises
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.computed import NumberV
from dynacomp.capture.values.constant import is_const
from dynacomp.capture.values.iterators import CountIterV
from dynacomp.capture.values.questions import is_graph_number
from dynacomp.capture.values.value import NotConstant, Value


def jump(cap: Capture, frame: Frame, instr: Instruction, condition: Value, wanted: bool) -> int | None:
    """A conditional jump, taken when `condition` is `wanted`, which has been taken off the stack."""
    jumped, fallen = Start(frame.code.at[instr.argval]), Start(frame.index + 1)
    return _choose(cap, frame, condition, jumped if wanted else fallen, fallen if wanted else jumped)


def known(cap: Capture, frame: Frame, instr: Instruction, condition: bool, wanted: bool) -> int | None:
    """A jump that Python decides: None, or where the long loop ends whose test it is."""
    if not cap.lessons.rolled:  # nearly all
        return None
    jumped, fallen = Start(frame.code.at[instr.argval]), Start(frame.index + 1)
    return rolled_loops.roll_test(cap, frame, condition, jumped if wanted else fallen, fallen if wanted else jumped)


def jump_or_pop(cap: Capture, frame: Frame, instr: Instruction, condition: Value, wanted: bool) -> int | None:
    """`and` and `or` as expressions: the condition itself stays on the stack where it jumps."""
    jumped, fallen = Start(frame.code.at[instr.argval]), Start(frame.index + 1, Frame.pop)
    return _choose(cap, frame, condition, jumped if wanted else fallen, fallen if wanted else jumped)


def next_of_range(cap: Capture, frame: Frame, instr: Instruction, it: CountIterV) -> int | None:
    """`for i in range(...)` where the Graph counts: the loop goes on, or it is at its end."""
    more, item = graph_scalars.next_of_range(cap, it)

    def go_on(copy: Frame) -> None:
        following = graph_scalars.counted(cap, it, item)
        mutating(cap, it)
        it.current = following
        copy.push(item)

    leave = Start(frame.code.at[instr.argval] + LOOP_ENDS, Frame.pop)
    return _choose(cap, frame, more, Start(frame.index + 1, go_on), leave)


def _choose(cap: Capture, frame: Frame, condition: Value, yes: Start, no: Start) -> int | None:
    refusal = Break("branch", "a condition that is an array")
    if not may_convert(cap, frame, condition):
        raise refusal
    try:
        asked = graph_scalars.truth(cap, condition) if is_graph_number(condition) else graph_scalars.from_array(
            cap, condition, bool)
        if asked is None:
            raise refusal
        if is_const(asked):  # among what its number may be there is no 0, or nothing else
            return _go_on(frame, yes if asked.value else no)
        return _become(cap, frame, asked, yes, no)
    except (Break, Raised, Differs, NotConstant):
        raise refusal from None


def _go_on(frame: Frame, start: Start) -> int:
    """The frame where one side starts; the offset of its instruction."""
    start.prepare(frame)
    return frame.code.instrs[start.index].offset


def _become(cap: Capture, frame: Frame, asked: NumberV, yes: Start, no: Start) -> int | None:
    """What the jump becomes: a check, where one side only raises, or cannot be captured."""
    raises, loop = only_raises(frame.code, yes.index), loop_of(frame.code, frame.index)
    one_raises = raises != only_raises(frame.code, no.index) and may_assume(cap, frame, asked)
    if one_raises and (loop is not None or frame.code.handler(frame.instr.offset) is None):
        return assume(cap, frame, asked, no if raises else yes, not raises)
    try:
        if loop is not None:
            return loops.convert(cap, frame, loop, asked, yes, no)
        return decide(cap, frame, asked, yes, no)
    except OneSide as found:
        if loop is not None and isinstance(found.stopped, Break):
            raise found.stopped from None
        return assume(cap, frame, asked, yes if found.yes else no, found.yes, found.stopped)
    except (Break, Raised, Differs, NotConstant):
        if not one_raises:
            raise
        return assume(cap, frame, asked, no if raises else yes, not raises)
