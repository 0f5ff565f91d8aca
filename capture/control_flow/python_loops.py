"""Loops whose number of rounds changes from call to call: after a few such numbers Python runs them, and their body is
compiled once.

Unrolled, such a loop takes an entry for each number of rounds, and one of a hundred rounds takes long to compile.
Where it can be no node of the Graph either (see `rolled_loops`), capture breaks where it begins; each round is then a
resume function, the same for all (see `long_loops`).

What a loop goes over is known by its Sources: the numbers that end a range, the container that a `for` walks. The
driver says whether they change too often (`Policy.changes_often` of `Rounds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.control_flow.long_loops import leave
from dynacomp.capture.graph.sizes import canonical, is_symbolic, names
from dynacomp.capture.kinds.iteration import ROUNDS_ASKED, left_of
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import SizeV
from dynacomp.capture.values.constant import is_const
from dynacomp.capture.values.iterators import CountIterV, GivenIterV, SeqIterV, StreamV, counters
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_list, is_size
from dynacomp.capture.values.value import Value


@dataclass(frozen=True)
class Rounds(S.Source):
    """How often a loop goes round that ends with the number at `base`, or walks the container there."""

    base: S.Source
    walked: bool = False

    def __repr__(self) -> str:
        return f"rounds({self.base!r})"


def watch_rounds(cap: Capture, frame: Frame, instr: Instruction, it: Value) -> None:
    """Called at each round of a `for`: Restart where Python is to run the loop."""
    if not cap.may_break:
        return
    loop = frame.loops[instr.index]
    if loop.rounds == 1:
        cap.numbers.scalars.update(counted(cap, it))
    if must_unroll(cap, it, loop.rounds) and loop.step not in cap.lessons.breaks and any(
            map(cap.root.policy.changes_often, rounds_of(cap, it))):
        leave(cap, loop, "rounds")


def must_unroll(cap: Capture, it: Value, rounds: int) -> bool:
    """Whether the number of rounds has to be known now: a range may still become a node in its first rounds."""
    counts = counters(it)
    if counts:
        return any(is_size(c.step) or c.asked >= ROUNDS_ASKED and is_size(left_of(cap, c)) for c in counts)
    return rounds == 1


def counted(cap: Capture, it: Value) -> Iterator[tuple[Rounds, Any]]:
    """What is noted of a loop over a range: the numbers that end it now."""
    for part in (x for c in counters(it) for x in (c.current, c.stop, c.step)):
        if is_const(part) and part.source is not None:
            yield Rounds(part.source), part.value
        elif is_size(part):
            scope = cap.sizes.scope
            yield from ((Rounds(cap.sizes.dims[n]), scope.value(scope.symbol(n))) for n in symbols(part))


def rounds_of(cap: Capture, it: Any) -> Iterable[Rounds]:
    """What decides how often a loop goes round, as far as that has Sources."""
    row = kind(it).rounds
    return () if row is None else row(cap, it)


def _of_count(cap: Capture, it: CountIterV) -> Iterator[Rounds]:
    for part in of_class(SizeV, (it.current, it.stop, it.step)):
        yield from (Rounds(cap.sizes.dims[n]) for n in symbols(part))


def _walked(walked: Value) -> list[Rounds]:
    return [] if walked.source is None or _is_short(walked) else [Rounds(walked.source, walked=True)]


def _is_short(walked: Value) -> bool:
    """Whether one round is all, or none: an entry each is the last one."""
    if not is_list(walked) or walked.front is not None:
        return False
    return (len(walked.items) if walked.unseen is None else list.__len__(walked.real) + len(walked.appended)) <= 1


def _of_parts(cap: Capture, it: StreamV) -> Iterator[Rounds]:
    for part in it.parts:
        yield from rounds_of(cap, part)
        if getattr(part, "source", None) is not None:
            yield Rounds(part.source, walked=True)


define(CountIterV, Kind(rounds=_of_count))
define(SeqIterV, Kind(rounds=lambda cap, it: _walked(it.seq)))
define(GivenIterV, Kind(rounds=lambda cap, it: _walked(it)))
define(StreamV, Kind(rounds=_of_parts))


def symbols(size: SizeV) -> list[str]:
    """The names of the symbols that a size depends on."""
    expr = canonical(size.expr)
    return sorted(names(expr)) if is_symbolic(expr) else []
