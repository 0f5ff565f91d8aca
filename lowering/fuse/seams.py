"""What a Schedule leaves to XLA, operation by operation: for notices and `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.fuse.schedule import ExternStep, Schedule
from dynacomp.lowering.rules.support import why_not


@dataclass(frozen=True)
class Seam:
    """One operation that XLA computes: the user's line ("" and 0 where that is unknown), and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.file else self.reason


def seams(schedule: Schedule) -> tuple[Seam, ...]:
    """Every operation of the ExternSteps, each once."""
    return tuple(dict.fromkeys(s for step in of_class(ExternStep, schedule.steps) for s in _of(step)))


def _of(step: ExternStep) -> Iterator[Seam]:
    for node in step.graph.calls:
        if (reason := why_not(node)) is not None:
            file, line = node.where[-1][:2] if node.where else ("", 0)
            yield Seam(file, line, reason)
