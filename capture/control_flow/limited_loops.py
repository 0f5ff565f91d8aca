"""Loops on arrays in the functions of gradients: no derivative goes backwards through a `while_loop`, so they become a
scan of so many rounds that the loop has ended by then; the rounds after its end do nothing.

    def loss(p):
        while jnp.abs(p * p - 2).max() > 1e-3:      # in the Graph: loop_within(64, ...), and beside the gradient
            p = p - (p * p - 2) / (2 * p)           # ends_within(64, ...), a check
        return p.sum()

    jax.grad(loss)(p)

How many rounds it takes is computed outside, where eager JAX has the values (see `hoisting`). A call that takes more
starts again as plain Python, and leaves more room to the next capture.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import CodeType
from typing import Any

import jax

from dynacomp.capture.control_flow.hoisting import call_outside
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.control_flow.raising import check_of, is_at_end
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.capture.reconstruct.checks import Check
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values import sources as S

MORE, MOST_ROUNDS = 8, 1 << 15  # a loop of more rounds than there is room for gets so many times the room
MOST_BYTES = 1 << 28  # what a derivative may keep of what all rounds carry


class Room(Check):
    """For how many rounds of a loop a Graph has room."""

    reason, text = "rounds", "a loop in the function of a gradient goes round more often than in calls before"

    def __init__(self, code: CodeType, index: int, line: int) -> None:
        super().__init__(code, index, line)
        self.rounds = 64

    def failed(self, held: int) -> None:
        self.failures += 1
        self.rounds *= MORE


def loop_within(rounds: int, first: Callable[..., Any], body: Callable[..., Any], state: tuple[Any, ...]) -> Any:
    """`jax.lax.while_loop(first, body, state)`, of at most so many rounds."""
    def step(state: Any, _: Any) -> Any:
        return jax.lax.cond(first(state), body, lambda state: state, state), None

    return jax.lax.scan(step, state, None, length=rounds)[0]


def ends_within(rounds: int, first: Callable[..., Any], body: Callable[..., Any], state: tuple[Any, ...]) -> Any:
    """Whether that loop has ended then."""
    def going(counted: Any) -> Any:
        return (counted[0] <= rounds) & first(counted[1])

    return jax.lax.while_loop(going, lambda counted: (counted[0] + 1, body(counted[1])), (0, state))[0] <= rounds


def emit_limited(cap: Capture, frame: Frame, loop: tuple[Any, ...], avals: tuple[Aval, ...]) -> Node:
    """The node of a loop, given as `jax.lax.while_loop` takes it; Differs where nobody could tell that it has ended."""
    room = check_of(frame, Room)
    if not is_at_end(cap, frame) or room.rounds > MOST_ROUNDS or room.rounds * sum(map(_bytes, avals)) > MOST_BYTES:
        raise Differs("a loop in a function that a transformation traces")
    rounds = room.rounds
    asked = call_outside(cap, ends_within, (rounds, *loop), aval_of(True), "ends_within")
    cap.guards.add("is", S.Attr(S.Root(room, room.where), "rounds"), rounds)
    cap.graph.checks.append((room, asked))
    return emit_node(cap, loop_within, ((rounds, *loop), {}), avals, "loop_within")


def _bytes(aval: Aval) -> int:
    sizes = [d.scope.value(d) if is_symbolic(d) else d for d in aval.shape]
    return math.prod(sizes) * getattr(aval.dtype, "itemsize", 8)
