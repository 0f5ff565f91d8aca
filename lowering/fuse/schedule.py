"""The Schedule: what a backend gets, one whole Graph as steps over planned buffers.

Steps run in order. Buffers named in `inputs` come from the caller, those in `outputs` are given
to it; `consts` are read-only arrays known at compile time; every other buffer is temporary and
lives in the arena at `offsets[name]` (bytes, 64-aligned; two may share bytes when their lifetimes
do not meet). An output may be an input or a const (`aliases`), or appear twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import sympy

from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel
from dynacomp.lowering.kernel_ir.printer import text


@dataclass(frozen=True)
class KernelStep:
    """Run one loop Kernel on Schedule buffers: `bindings` maps each of its buffers' names (inputs
    and outputs) to the Schedule's. Steps whose kernels are alike share one Kernel object, so a
    backend emits code once per distinct `kernel` (compare by identity)."""

    kernel: Kernel
    bindings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TemplateStep:
    """Run a kernel template of `dynacomp.kernels` (matmul, convolution, sort, random bits...).

    `params` holds what the template needs besides buffers: ints, strings and SymPy sizes.
    """

    template: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExternStep:
    """Call XLA at the seam: `graph` (a primitive Graph; placeholders = operands) through
    `jax.jit`; its flat outputs are the results. `why` says what had no lowering."""

    graph: Any
    operands: tuple[str, ...]
    results: tuple[str, ...]
    why: str = ""


Step = Union[KernelStep, TemplateStep, ExternStep]


@dataclass(frozen=True)
class Schedule:
    """Steps over buffers.

    sizes: the symbolic sizes in argument order, each with where to read it: (input position,
    dimension). offsets: arena byte offsets of the temporaries; arena: its size in bytes (SymPy).
    aliases: output name → input or const name whose value it is (nothing to compute).
    output_avals: one Aval per output (shape in SymPy or ints, dtype, weak type).
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

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(schedule: Schedule) -> Iterator[str]:
    """What `str(schedule)` shows: the caller's buffers, then the steps, each kernel where it first runs."""
    yield f"schedule {schedule.name}({', '.join(schedule.inputs)}) -> ({', '.join(schedule.outputs)}):"
    seen: set[int] = set()
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            bound = ", ".join(f"{own}={buffer}" for own, buffer in step.bindings.items())
            yield f"    {step.kernel.name}({bound})"
            if id(step.kernel) not in seen:
                yield from (f"        {line}" for line in text(step.kernel).splitlines())
            seen.add(id(step.kernel))
        elif isinstance(step, TemplateStep):
            yield f"    {', '.join(step.results)} = {step.template}({', '.join(step.operands)})"
        else:
            yield f"    {', '.join(step.results)} = xla({', '.join(step.operands)})  # {step.why}"
