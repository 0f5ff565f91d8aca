"""Conditions on arrays one of whose sides only raises: `assert (x > 0).all()`, `if jnp.isnan(loss): raise ...`; or
cannot be captured: `if loss > 1e3: logger.warning(...)`.

The Graph computes the condition, and capture goes on as if that side were never taken. Before anything else of the
frame happens, the replacement code looks at the answer (`reconstruct.checks`). Where the other side was to be taken,
the call starts again as plain Python, which raises what the program raises, in its words, with its traceback, or says
what it says; all is as in eager JAX, since graphs change nothing.

    def step(params, batch):
        loss, grads = value_and_grad(loss_of)(params, batch)
        if jnp.isnan(loss):                     # an output of the one graph
            raise FloatingPointError(f"loss is {loss}")
        return update(params, grads)

In the function of a gradient a condition that eager JAX can see is computed outside, once more (see `hoisting`).

A place that fails again and again is trusted no more, and breaks the graph. So does every check before a loop that
ends when arrays say so, which might not end for what the program would have refused.
"""

from __future__ import annotations

import jax.numpy as jnp

from dynacomp.capture.base.errors import Break
from dynacomp.capture.bytecode.code import Decoded, per_code
from dynacomp.capture.bytecode.control_flow_graph import EXIT, successors
from dynacomp.capture.control_flow.branches import Start
from dynacomp.capture.control_flow.hoisting import hoisted, may_hoist
from dynacomp.capture.control_flow.merge import Differs
from dynacomp.capture.reconstruct.checks import C, Check, check_at
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NumberV


def may_assume(cap: Capture, frame: Frame, asked: NumberV) -> bool:
    """Whether a condition here may be left for the end of the Graph."""
    return is_at_end(cap, frame) and check_of(frame).trusted and (cap.may_break or may_hoist(cap, asked.node))


def is_at_end(cap: Capture, frame: Frame) -> bool:
    """Whether a check may be asked when all of the Graph has run: it stands on each way through the frame."""
    return not (frame.stops or cap.lessons.asked_at_once or cap.graph.telling)


def assume(cap: Capture, frame: Frame, asked: NumberV, start: Start, wanted: bool,
           stopped: BaseException | None = None) -> int:
    """Goes on at `start`, where `asked` is `wanted`; the offset of its instruction. stopped: what stopped capture on
    the other side."""
    if not may_assume(cap, frame, asked):
        raise Differs("a side that raises or breaks")
    check: Check = check_of(frame)
    found = hoisted(cap, asked.node)
    check.stopped = Break(stopped.kind, stopped.detail) if isinstance(stopped, Break) else None
    cap.guards.add("is", S.Attr(S.Root(check, check.where), "trusted"), True)
    node = found if wanted else cap.graph.builder.call(jnp.logical_not, (found,), {}, asked.aval)
    cap.graph.checks.append((check, node))
    start.prepare(frame)
    return frame.code.instrs[start.index].offset


def check_of(frame: Frame, cls: type[C] = Check) -> C:  # type: ignore[assignment]
    """The check of that kind at the frame's instruction."""
    return check_at(frame.code.code, frame.index, frame.instr.line, cls)


def only_raises(code: Decoded, index: int) -> bool:
    """Whether every way on from an instruction raises."""
    return index in _raising(code)


@per_code
def _raising(code: Decoded) -> frozenset[int]:
    """The instructions that an exception follows, whatever way is taken."""
    found: set[int] = set()
    for i in reversed(range(len(code.instrs))):
        instr = code.instrs[i]
        after = [s for s in successors(code, i) if s != EXIT]
        if all(s in found for s in after) if after else instr.name in ("RAISE_VARARGS", "RERAISE"):
            found.add(i)
    return frozenset(found)
