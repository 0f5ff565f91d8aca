"""Cuts a Schedule at its ExternSteps: native segments, each a Schedule of its own, with XLA between them.

What crosses a cut becomes an output of the segment that writes it and an input of those that read it.
Every segment also takes the Schedule's inputs that sizes are read from.

    [k0, k1, extern, k2]  →  Segment(k0, k1), ExternStep, Segment(k2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Union

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.fuse.schedule import ExternStep, Schedule, Step


@dataclass(frozen=True)
class Segment:
    """Native steps between two externs."""

    schedule: Schedule


Part = Union[Segment, ExternStep]


def has_externs(schedule: Schedule) -> bool:
    return any(of_class(ExternStep, schedule.steps))


def segments(schedule: Schedule) -> tuple[Part, ...]:
    """The Schedule's parts in order; an outputs-only Schedule has none."""
    parts: list[Part] = []
    at = 0
    for extern in (*of_class(ExternStep, schedule.steps), None):
        end = len(schedule.steps) if extern is None else schedule.steps.index(extern, at)
        if end > at:
            parts.append(Segment(_cut(schedule, schedule.steps[at:end], len(parts), schedule.steps[end:])))
        parts += [] if extern is None else [extern]
        at = end + 1
    return tuple(parts)


def _cut(schedule: Schedule, steps: Sequence[Step], number: int, later: Sequence[Step]) -> Schedule:
    made = _unique(w for s in steps for w in s.results)
    needed = {r for s in later for r in s.operands} | {schedule.aliases.get(o, o) for o in schedule.outputs}
    outputs = tuple(m for m in made if m in needed)
    inside: set[str] = set()
    taken = []
    for step in steps:
        taken += [r for r in step.operands if r not in inside and r not in schedule.consts]
        inside |= set(step.results)
    sized = [schedule.inputs[where[0]] for _, where in schedule.sizes]
    inputs = tuple(_unique([*taken, *sized]))
    sizes = tuple((symbol, (inputs.index(schedule.inputs[where[0]]), where[1]))
                  for symbol, where in schedule.sizes)
    avals = tuple(Aval(tuple(schedule.buffers[o].shape), schedule.buffers[o].dtype) for o in outputs)
    return replace(schedule, inputs=inputs, outputs=outputs, steps=tuple(steps), sizes=sizes, aliases={},
                   output_avals=avals, name=f"{schedule.name}_{number}")


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
