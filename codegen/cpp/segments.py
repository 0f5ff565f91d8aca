"""Cuts a Schedule at its ExternSteps: native segments, each a Schedule of its own, with XLA between them.

What crosses a cut becomes an output of the segment that writes it and an input of those that read it.
Every segment also takes the Schedule's inputs that sizes are read from.

    [k0, k1, extern, k2]  →  Segment(k0, k1), ExternStep, Segment(k2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Union

from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.fuse.schedule import ExternStep, Schedule, Step


@dataclass(frozen=True)
class Segment:
    """Native steps between two externs."""

    schedule: Schedule


Part = Union[Segment, ExternStep]


def has_externs(schedule: Schedule) -> bool:
    return any(isinstance(s, ExternStep) for s in schedule.steps)


def segments(schedule: Schedule) -> tuple[Part, ...]:
    """The Schedule's parts in order; an outputs-only Schedule has none."""
    groups = _groups(schedule.steps)
    parts: list[Part] = []
    for position, group in enumerate(groups):
        if isinstance(group, ExternStep):
            parts.append(group)
        else:
            later = [s for g in groups[position + 1:] for s in _steps(g)]
            parts.append(Segment(_cut(schedule, group, position, later)))
    return tuple(parts)


def _steps(group: list[Step] | ExternStep) -> list[Step]:
    return [group] if isinstance(group, ExternStep) else group


def _groups(steps: Iterable[Step]) -> list[list[Step] | ExternStep]:
    groups: list[list[Step] | ExternStep] = []
    for step in steps:
        if isinstance(step, ExternStep):
            groups.append(step)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _cut(schedule: Schedule, steps: list[Step], number: int, later: list[Step]) -> Schedule:
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
