"""Loops around arrays that grow: Python runs them, and their body is compiled once for all sizes.

    for _ in range(n):                                  # a model that generates text
        token = model(params, tokens)[-1].argmax()
        tokens = jnp.concatenate([tokens, token[None]])

No node of a Graph has such a body. Unrolled, the loop is as many copies of a model as it has rounds, each for a size of
its own, which takes long to compile, and serves one number of rounds. An array grows where each of two rounds has made
it longer along one axis; what a network makes of it from layer to layer changes in other ways, mostly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.control_flow_graph import live
from dynacomp.capture.symbolic.machine import Frame, Loop
from dynacomp.capture.values.questions import is_graph_array
from dynacomp.capture.values.value import children

MOST_OPS = 600  # array operations of all rounds together that are unrolled all the same
MOST_SEEN = 64  # of what a local name holds

Shapes = dict[tuple[Any, ...], tuple[Any, ...]]


def is_too_long(frame: Frame, instr: Instruction, loop: Loop, expected: int) -> bool:
    """Whether a loop that is to run so many operations goes around an array that grows, for too long to be unrolled.
    Called each time that it is at `instr`."""
    if expected <= MOST_OPS:
        return False
    before, loop.shapes = loop.shapes, _shapes(frame, instr.index)
    return any(_is_longer(shape, loop.shapes.get(place)) for place, shape in before.items())


def _shapes(frame: Frame, index: int) -> Shapes:
    """The shapes of the arrays that later rounds may read, by name, and place in its containers."""
    names = live(frame.code, index)
    return {(name, i): part.aval.shape for name, v in frame.locals.items() if name in names
            for i, part in zip(range(MOST_SEEN), _parts(v, 0)) if is_graph_array(part)}


def _parts(v: Any, depth: int) -> Iterator[Any]:
    """It, and what it holds."""
    yield v
    if depth < 3 and v.source is None and getattr(v, "front", None) is None:  # what nobody asked for is not looked at
        for child in children(v):
            yield from _parts(child, depth + 1)


def _is_longer(before: tuple[Any, ...], now: tuple[Any, ...] | None) -> bool:
    """Whether one axis has become longer, and no other has changed."""
    if now is None or len(now) != len(before):
        return False
    changed = [(a, b) for a, b in zip(before, now) if a is not b and not bool(a == b)]
    return len(changed) == 1 and _grows(*changed[0])


def _grows(before: Any, now: Any) -> bool:
    more = now - before
    return isinstance(more, int) and more > 0
