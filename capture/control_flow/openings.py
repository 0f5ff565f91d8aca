"""Conditions on numbers and sizes that change, where calls have gone both ways: a `cond` of the Graph with the answer
as its input, so that one entry serves every combination of sides.

The first entries guard what such conditions come to. Once a call meets entries that a condition alone keeps from
serving it, and several conditions are asked, the next capture leaves them open (`Lessons.opens`):

    if step % 5 == 0:           # an input of the Graph: Python computes it in each call
        y = y * 0.5             # one side of a `cond`
    rate = 1.0 if step > 3 else step / 3    # Python's number, chosen by Python

Where the sides differ in more than arrays of one kind and numbers of one type, where one raises, breaks, or asks for
what holds of this call only, the condition is guarded as before: its place is `shut`, and the capture starts over.
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.bodies.subgraphs import localise
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.control_flow_graph import loop_of
from dynacomp.capture.control_flow.branches import OneSide, Start, decide
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.control_flow.raising import only_raises
from dynacomp.capture.graph.avals import aval_of
from dynacomp.capture.numbers import dynamic_scalars, host_functions
from dynacomp.capture.numbers.graph_inputs import scalar_node
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete, NumberV, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import NotConstant, Value, is_changing, now

NUMBERS = (int, float, bool)
LONG = 48  # steps of Python's that one number takes; more are not chosen between
REFUSED = (Break, Raised, Differs, NotConstant, NeedsConcrete, OneSide, Restart)


def may_open(cap: Capture, frame: Frame, value: Value) -> bool:
    """Whether a jump here on this Value need not be decided by this call's numbers."""
    if not cap.lessons.opens or not is_changing(value) or type(now(value)) not in NUMBERS:
        return False
    return place_of(frame) not in cap.lessons.shut and loop_of(frame.code, frame.index) is None


def place_of(frame: Frame) -> Any:
    return id(frame.code.code), frame.index


def jump(cap: Capture, frame: Frame, instr: Instruction, value: Value, wanted: bool) -> int | None:
    """A conditional jump, taken when `value` is `wanted`, as a `cond`: see `branches.decide`. Restart where it is
    none."""
    place = place_of(frame)  # a side that ends half-way leaves the frame where it stood
    jumped, fallen = Start(frame.code.at[instr.argval]), Start(frame.index + 1)
    yes, no = (jumped, fallen) if wanted else (fallen, jumped)
    if only_raises(frame.code, yes.index) or only_raises(frame.code, no.index):
        shut(cap, place)
    if is_long(value.source if is_scalar(value) else None):  # each choice may make it thrice as long
        shut(cap, place)
    relations, known, learnt = len(cap.sizes.scope.relations), len(cap.lessons.shut), cap.lessons.kept()
    try:
        asked = answer(cap, value)
        assert asked.source is not None
        cap.numbers.opened.setdefault(asked.source, set()).add(place)
        condition = NumberV(localise(cap, scalar_node(cap, asked)), aval_of(True), bool)
        found = decide(cap, frame, condition, yes, no, asked)
    except REFUSED as refused:
        if isinstance(refused, Restart) and len(cap.lessons.shut) > known:  # a condition of a side is shut
            raise
        cap.lessons.put_back(learnt)
        shut(cap, place)
    if len(cap.sizes.scope.relations) > relations:  # of this call's sizes: the entry would serve one of the sides
        shut(cap, place)
    return found


def is_long(source: Any) -> bool:
    """Whether a number is computed in many steps, those that occur twice counted twice."""
    todo, left = [source], LONG
    while todo and left:
        at = todo.pop()
        left -= 1
        todo.extend(at.args if isinstance(at, S.Host) else ())
    return bool(todo)


def shut(cap: Capture, place: Any) -> None:
    cap.lessons.shut.add(place)
    raise Restart


def answer(cap: Capture, value: Value) -> ScalarV:
    """The truth of a number, which Python computes in each call."""
    scalar: Any = host_functions.as_scalar(cap, value)
    if type(scalar.hint) is bool:
        return scalar
    found: Any = dynamic_scalars.host("ne", operator.ne, scalar, Const(0))
    return found
