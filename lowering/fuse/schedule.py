"""The Schedule: what a backend gets, one whole Graph as steps over planned buffers.

Steps run in order. Buffers named in `inputs` come from the caller, those in `outputs` are given
to it; `consts` are read-only arrays known at compile time; every other buffer is temporary and
lives at `offsets[name]` (bytes, 64-aligned) in the arena, or in the output `hosts[name]` until that
is written; two may share bytes when their lifetimes do not meet. An output may be an input or a
const (`aliases`), or appear twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Union

import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel
from dynacomp.lowering.kernel_ir.printer import text


class Plain:
    """A step that runs no Schedules, and has no buffers but those of its operands and results. label: what it is
    called among the native kernels, if it is one of them."""

    label = ""
    inner: ClassVar[tuple[Schedule, ...]] = ()
    scratch: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class KernelStep(Plain):
    """Run one loop Kernel on Schedule buffers: `bindings` maps each of its buffers' names (inputs
    and outputs) to the Schedule's. Steps whose kernels are alike share one Kernel object, so a
    backend emits code once per distinct `kernel` (compare by identity)."""

    kernel: Kernel
    bindings: Mapping[str, str] = field(default_factory=dict)

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(self.bindings.get(b.name, b.name) for b in self.kernel.inputs)

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(self.bindings.get(b.name, b.name) for b in self.kernel.outputs)

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.kernel.name


@dataclass(frozen=True)
class TemplateStep(Plain):
    """Run a kernel template of `dynacomp.kernels` (matmul, convolution, sort, random bits...).

    `params` holds what the template needs besides buffers: ints, strings and SymPy sizes.
    """

    template: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.template


@dataclass(frozen=True)
class ExternStep(Plain):
    """Call XLA at the seam: `graph` (a primitive Graph; placeholders = operands) through
    `jax.jit`; its flat outputs are the results. `why` says what had no lowering."""

    graph: Any
    operands: tuple[str, ...]
    results: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class LoopStep:
    """Run the Schedule `body` again and again.

    operands: `consts` arrays that stay, `carries` first values of what is carried, the rest sliced: step i
    reads slice i of each (or length-1-i, `reverse`d). `body` takes one of each and gives the next carries,
    then a slice of each stacked result. It runs `length` times, or as long as `condition` (a Schedule of
    constants and carries) gives true. results: the last carries, the stacked arrays.

    scratch: a second buffer for each carry (a step must not write what it still reads), then the arenas
    of the body and of the condition. extern: the same for a backend that leaves loops to XLA.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    scratch: tuple[str, ...]
    extern: ExternStep
    consts: int
    carries: int
    body: Schedule
    condition: Schedule | None = None
    length: Any = 0
    reverse: bool = False

    @property
    def inner(self) -> tuple[Schedule, ...]:
        return (self.body,) if self.condition is None else (self.body, self.condition)


@dataclass(frozen=True)
class BranchStep:
    """Run one of the Schedules `inner` on all operands but the first, which says which (an int32; out of
    range: the nearest). scratch: the arena of each. extern: as for a LoopStep."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    scratch: tuple[str, ...]
    extern: ExternStep
    inner: tuple[Schedule, ...]


Step = Union[KernelStep, TemplateStep, ExternStep, LoopStep, BranchStep]


@dataclass(frozen=True)
class Schedule:
    """Steps over buffers.

    sizes: the symbolic sizes in argument order, each with where to read it: (input position,
    dimension). offsets: byte offsets of the temporaries, in the output `hosts[name]` or else in the
    arena; arena: its size in bytes (SymPy).
    aliases: output name → input or const name whose value it is (nothing to compute).
    output_avals: one Aval per output (shape in SymPy or ints, dtype, weak type). in_place: outputs of a
    loop's body that are made in the memory of an input, of which some parts change.
    """

    buffers: Mapping[str, Buffer]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    consts: Mapping[str, np.ndarray] = field(default_factory=dict)
    sizes: tuple[tuple[sympy.Symbol, tuple[int, int]], ...] = ()
    offsets: Mapping[str, sympy.Expr] = field(default_factory=dict)
    arena: sympy.Expr = sympy.Integer(0)
    aliases: Mapping[str, str] = field(default_factory=dict)
    output_avals: tuple[Any, ...] = ()
    name: str = "graph"
    in_place: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(schedule: Schedule, word: str = "schedule") -> Iterator[str]:
    """What `str(schedule)` shows: the caller's buffers, then the steps, each kernel where it first runs."""
    yield f"{word} {schedule.name}({', '.join(schedule.inputs)}) -> ({', '.join(schedule.outputs)}):"
    seen: set[int] = set()
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            bound = ", ".join(f"{own}={buffer}" for own, buffer in step.bindings.items())
            yield f"    {step.kernel.name}({bound})"
            if id(step.kernel) not in seen:
                yield from (f"        {line}" for line in text(step.kernel).splitlines())
            seen.add(id(step.kernel))
            continue
        call, why = _called(step)
        yield f"    {', '.join(step.results)} = {call}({', '.join(step.operands)}){why}"
        yield from (f"        {line}" for inner in step.inner for line in _lines(inner, "body"))


def _called(step: Step) -> tuple[str, str]:
    """What a step calls that is no kernel, and a comment."""
    match step:
        case TemplateStep():
            return step.template, ""
        case ExternStep():
            return "xla", f"  # {step.why}"
        case LoopStep():
            return ("loop" if step.condition else f"loop {step.length}"), ""
    return "branches", ""


def without_control(schedule: Schedule) -> Schedule:
    """The Schedule with its loops and branches left to XLA: for backends that have none of their own."""
    steps = (getattr(s, "extern", s) for s in schedule.steps)
    return replace(schedule, steps=tuple(steps))


def all_steps(schedule: Schedule) -> Iterator[Step]:
    """Every step of a Schedule, those inside loops and branches after the step that holds them."""
    for step in schedule.steps:
        yield step
        for inner in step.inner:
            yield from all_steps(inner)
