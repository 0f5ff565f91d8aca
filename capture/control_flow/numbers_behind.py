"""Python numbers behind a loop that is one node: where Python knows a number in every round (see `loop_numbers`), no
round has to carry it, and what names and containers hold behind the loop follows from the last one.

    for i in range(n):
        rate = rate * 0.9       # handed on from round to round, by Python
        k = 2 * i               # bound anew in each round: 2 * (n - 1) behind the loop
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.bytecode.control_flow_graph import live
from dynacomp.capture.control_flow.branches import Leaf
from dynacomp.capture.control_flow.iterations import Iteration, Place
from dynacomp.capture.control_flow.loop_numbers import LoopNumbers
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.value import Value


def last_numbers(loop: Iteration, numbers: LoopNumbers, ends: list[Leaf]) -> dict[str, Value]:
    """What the names hold behind the loop of which Python knows the number in every round. Those that
    no iteration reads before it binds them need not be carried."""
    found: dict[str, Value] = {}
    needed = live(loop.frame.code, loop.plan.start.index)
    for name in loop.plan.names:
        exprs = {_expr_in(numbers, leaf, name) for leaf in ends}
        if len(exprs) == 1 and None not in exprs and name not in needed:
            found[name] = numbers.behind(exprs.pop())
            row = kind(loop.locals[name]).carried
            if row is None or row.made is None:
                del loop.locals[name]
    return found


def _expr_in(numbers: LoopNumbers, leaf: Leaf, name: str) -> Any:
    """What a name holds at the end of an iteration, as an expression of the round; None where it is none."""
    series = numbers.series_of(leaf.side.frame.locals.get(name))
    return None if series is None else series.expr


def handed_on(loop: Iteration, numbers: LoopNumbers, ends: list[Leaf]) -> dict[Place, Value]:
    """The numbers that rounds hand on, as the last one leaves them; what each round makes of them is noted."""
    states = {place: _inside(loop, place).series.expr for place in loop.changed.numbers}
    for place, state in states.items():
        made = {numbers.expr_of(_made(loop, place, leaf)) for leaf in ends}
        if len(made) != 1:
            raise Differs("a number that changes in several ways")
        numbers.states[state.index][1] = made.pop()
    return {place: numbers.behind(state, is_left=True) for place, state in states.items()}


def _inside(loop: Iteration, place: Place) -> Any:
    return loop.locals[place] if isinstance(place, str) else loop.held[place[0]][place[1]]


def _made(loop: Iteration, place: Place, leaf: Leaf) -> Any:
    return leaf.side.frame.locals[place] if isinstance(place, str) else loop.parts(place[0], leaf)[place[1]]
