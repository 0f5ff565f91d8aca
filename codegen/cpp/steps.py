"""The steps of a Schedule as C++ statements: calls of kernels and templates, loops, branches.

A `Frame` says where a Schedule's buffers are while its steps run. That of the whole program has the caller's
pointers and the arena. A loop's body has one of its own:

    carries   see `Carry`; what is small is an array on the stack, which the compiler can keep in registers
    slices    the outer array's address, moved by the number of the step
    kernels   small ones are inlined, without lanes or threads
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.cost import is_small
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.schedule import BranchStep, KernelStep, LoopStep, Schedule, TemplateStep, all_steps
from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel

Lines = Iterator[str]
Names = Mapping[int, str]
FEW = 256
"""Bytes of a carry or a temporary up to which a loop keeps it on the stack."""


@dataclass(frozen=True)
class Frame:
    """Where the buffers of a Schedule are, in C++: addresses of its inputs and outputs, of its constants, and of its
    arena. `depth`: how many loops and branches are around it; inside one, small temporaries are arrays of their own."""

    schedule: Schedule
    inputs: Sequence[str]
    outputs: Sequence[str]
    consts: Sequence[str] = ()
    arena: str = ""
    depth: int = 0

    def where(self, name: str) -> str:
        """The address of a buffer."""
        name = self.schedule.aliases.get(name, name)
        return self.places[name] if name in self.places else self.temporary(name)

    @functools.cached_property
    def places(self) -> dict[str, str]:
        """The addresses that are given. Of equal outputs the first is written, and copied to the others."""
        schedule = self.schedule
        places = {n: text for n, text in reversed(list(zip(schedule.outputs, self.outputs)))
                  if n not in schedule.aliases}
        places |= dict(zip(schedule.consts, self.consts))
        changed = written(schedule)
        places |= {n: t for n, t in reversed(list(zip(schedule.inputs, self.inputs))) if n not in changed}
        return places | {after: places[before] for after, before in schedule.in_place.items()}

    def owns(self, name: str) -> bool:
        """Is this temporary an array of its own on the stack?"""
        return self.depth > 0 and _is_few(self.schedule.buffers[name])

    def temporary(self, name: str) -> str:
        if self.owns(name):
            return f"v{self.depth}_{cpp_name(name)}"
        host = self.schedule.hosts.get(name)
        memory = self.arena if host is None else self.where(host)
        return f"((char*){memory} + {index_code(self.schedule.offsets[name])})"

    def inside(self, schedule: Schedule, inputs: Sequence[str], outputs: Sequence[str], arena: str) -> Frame:
        """The Frame of a body."""
        return Frame(schedule, inputs, outputs, (), arena, self.depth + 1)


def entry_frame(schedule: Schedule) -> Frame:
    """The Frame of a whole program, by the parameters of `dynacomp_run`."""
    numbered = lambda array, names: [f"{array}[{k}]" for k in range(len(names))]
    return Frame(schedule, numbered("inputs", schedule.inputs), numbered("outputs", schedule.outputs),
                 numbered("consts", schedule.consts), "arena")


def frame_code(frame: Frame, names: Names) -> Lines:
    """All that a Schedule does; `names` has the function of each Kernel."""
    yield from (_array(frame.temporary(n), frame.schedule.buffers[n]) for n in frame.schedule.offsets if frame.owns(n))
    yield from _updated_inputs(frame)
    for step in frame.schedule.steps:
        yield from _STEPS[type(step)](step, frame, names)
    yield from _copies(frame)


# ---- kernels and templates --------------------------------------------------------------------

def buffers_of(kernel: Kernel) -> dict[str, Buffer]:
    """The kernel's parameters in order: inputs, then outputs that are not inputs."""
    return {b.name: b for b in (*kernel.inputs, *kernel.outputs)}


def _kernel(step: KernelStep, frame: Frame, names: Names) -> Lines:
    kernel = step.kernel
    args = ["rt"]
    for buffer in buffers_of(kernel).values():
        const = "" if buffer.name in {b.name for b in kernel.outputs} else "const "
        place = frame.where(step.bindings.get(buffer.name, buffer.name))
        args.append(f"({const}{types.storage(buffer.dtype)}*){place}")
    args += [cpp_name(s.name) for s in kernel.sizes]
    yield f"{names[id(kernel)]}({', '.join(args)});"


def _template(step: TemplateStep, frame: Frame, names: Names) -> Lines:
    yield TEMPLATES[step.template].call(step.params, template_dtypes(step, frame.schedule),
                                        [frame.where(o) for o in step.operands],
                                        [frame.where(r) for r in step.results], index_code)


def template_dtypes(step: TemplateStep, schedule: Schedule) -> list[np.dtype]:
    """The dtypes of a template's operands and results."""
    return [np.dtype(schedule.buffers[b].dtype) for b in (*step.operands, *step.results)]


def written(schedule: Schedule) -> set[str]:
    """Schedule buffers that some step writes."""
    return {name for step in schedule.steps for name in step.results}


def _updated_inputs(frame: Frame) -> Lines:
    """An input that a step updates in place is copied to its output first: arrays never change."""
    changed = written(frame.schedule)
    for name, source in zip(frame.schedule.inputs, frame.inputs):
        if name in changed:
            yield _copy(frame.schedule.buffers[name], frame.where(name), source)


def _copies(frame: Frame) -> Lines:
    """Outputs that are inputs, consts or other outputs: a copy, as every output owns its memory."""
    schedule = frame.schedule
    seen: set[str] = set()
    changed = written(schedule)
    for name, target in zip(schedule.outputs, frame.outputs):
        source = schedule.aliases.get(name, name)
        given = (source in schedule.inputs or source in schedule.consts) and source not in changed
        if given or source != name or name in seen:
            yield _copy(schedule.buffers[source], target, frame.where(source))
        seen.add(name)


def _copy(buffer: Buffer, target: str, source: str) -> str:
    if _is_few(buffer):
        buffer = buffer.in_kernels
        kind = types.storage(buffer.dtype)
        return f"copy_few<{_numel(buffer)}>(({kind}*){target}, (const {kind}*){source});"
    return f"__builtin_memcpy({target}, {source}, (uint64_t)({_bytes(buffer)}));"


def _bytes(buffer: Buffer) -> str:
    return f"({index_code(buffer.numel)})*{np.dtype(buffer.dtype).itemsize}"


# ---- loops ------------------------------------------------------------------------------------

def _loop(step: LoopStep, frame: Frame, names: Names) -> Lines:
    yield "{"
    yield from _indent(_loop_lines(step, frame, names))
    yield "}"


def _loop_lines(step: LoopStep, frame: Frame, names: Names) -> Lines:
    state = list(_carries(step, frame))
    for one in state:
        yield from _START[one.kind](one)
    yield from _iterations(step, frame, names, [c.read for c in state], [c.write for c in state])
    yield from (f"  {line}" for one in state for line in _NEXT[one.kind](one))
    yield "}"
    yield from (f"if ((char*){c.read} != (char*){c.last}) {_copy(c.buffer, c.last, c.read)}" for c in state)


@dataclass(frozen=True)
class Carry:
    """One array that a loop carries: where a step reads it (`read`) and writes the next one (`write`), in C++.

    few: both are small arrays, of which the second is copied to the first after each step
    fixed: one buffer, that of the result, changed in place
    moving: two buffers whose pointers change places; `spare` is the second, later the one just read
    """

    kind: str
    buffer: Buffer
    first: str
    last: str
    spare: str
    read: str
    write: str


def _carries(step: LoopStep, frame: Frame) -> Iterator[Carry]:
    operands = step.operands[step.consts:step.consts + step.carries]
    for k, (operand, result, name) in enumerate(zip(operands, step.results, step.body.outputs)):
        buffer = step.body.buffers[step.body.inputs[step.consts + k]]
        kind = "fixed" if name in step.body.in_place else "few" if _is_few(buffer) else "moving"
        read, write = f"r{frame.depth}_{k}", f"w{frame.depth}_{k}"
        spare = frame.where(step.scratch[k])
        yield Carry(kind, buffer, frame.where(operand), frame.where(result), spare, read,
                    read if kind == "fixed" else write)


def _start_few(c: Carry) -> Lines:
    yield _array(c.read, c.buffer)
    yield _array(c.write, c.buffer)
    yield _copy(c.buffer, c.read, c.first)


def _start_fixed(c: Carry) -> Lines:
    yield f"char* const {c.read} = (char*){c.last};"
    yield f"if ({c.read} != (char*){c.first}) {_copy(c.buffer, c.read, c.first)}"


def _start_moving(c: Carry) -> Lines:
    yield f"char* {c.read} = (char*){c.first};"
    yield f"char* {c.write} = (char*){c.last};"
    yield f"char* x{c.read} = (char*){c.spare};"


_START = {"few": _start_few, "fixed": _start_fixed, "moving": _start_moving}
_NEXT = {"few": lambda c: [_copy(c.buffer, c.read, c.write)], "fixed": lambda c: [],
         "moving": lambda c: [f"{c.read} = {c.write}; {c.write} = x{c.read}; x{c.read} = {c.read};"]}


def _iterations(step: LoopStep, frame: Frame, names: Names, read: list[str], write: list[str]) -> Lines:
    """The head of the `for` and the body's steps; the caller closes it."""
    arenas = [frame.where(a) for a in step.scratch[step.carries:]]
    number = f"n{frame.depth}"
    consts = [frame.where(o) for o in step.operands[:step.consts]]
    if step.condition is not None:
        yield "for (;;) {"
        go = f"go{frame.depth}"
        yield f"  bool {go} = false;"
        test = frame.inside(step.condition, [*consts, *read], [f"&{go}"], arenas[1])
        yield from _indent(_braced(frame_code(test, names)))
        yield f"  if (!{go}) break;"
    else:
        count = index_code(step.length)
        back = f"for (int64_t {number} = {count} - 1; {number} >= 0; --{number}) {{"
        yield back if step.reverse else f"for (int64_t {number} = 0; {number} < {count}; ++{number}) {{"
    slices = [_slice(frame.where(o), step.body, n, number) for o, n in
              zip(step.operands[len(consts) + len(read):], step.body.inputs[len(consts) + len(read):])]
    stacked = [_slice(frame.where(r), step.body, n, number) for r, n in
               zip(step.results[len(read):], step.body.outputs[len(read):])]
    body = frame.inside(step.body, [*consts, *read, *slices], [*write, *stacked], arenas[0])
    yield from _indent(_braced(frame_code(body, names)))


def _slice(place: str, body: Schedule, name: str, number: str) -> str:
    """The address of one step's slice."""
    return f"((char*){place} + {number}*{_bytes(body.buffers[name])})"


# ---- branches ---------------------------------------------------------------------------------

def _branches(step: BranchStep, frame: Frame, names: Names) -> Lines:
    index, *operands = map(frame.where, step.operands)
    results = list(map(frame.where, step.results))
    yield f"switch (*(const int32_t*){index}) {{"
    for k, (inner, scratch) in enumerate(zip(step.inner, step.scratch)):
        label = "default" if k == len(step.inner) - 1 else "case INT32_MIN ... 0" if k == 0 else f"case {k}"
        yield f"  {label}: {{"
        yield from _indent(frame_code(frame.inside(inner, operands, results, frame.where(scratch)), names), 2)
        yield "    break;"
        yield "  }"
    yield "}"


# ---- what is small ----------------------------------------------------------------------------

def inlined(schedule: Schedule) -> set[int]:
    """The ids of the kernels that are written where they are called: small ones in loops and branches."""
    inner = (i for s in all_steps(schedule) for i in s.inner)
    kernels = (s.kernel for i in inner for s in of_class(KernelStep, i.steps))
    return {id(k) for k in kernels if is_small(k)}


def _static_bytes(buffer: Buffer) -> float:
    numel = sympy.sympify(buffer.numel)
    return int(numel) * np.dtype(buffer.dtype).itemsize if numel.is_Integer else float("inf")


def _is_few(buffer: Buffer) -> bool:
    return _static_bytes(buffer) <= FEW


def _numel(buffer: Buffer) -> int:
    return int(sympy.sympify(buffer.numel))


def _array(name: str, buffer: Buffer) -> str:
    buffer = buffer.in_kernels
    count = max(1, _numel(buffer))
    return f"[[maybe_unused]] alignas(64) {types.storage(buffer.dtype)} {name}[{count}];"


def _braced(lines: Lines) -> Lines:
    yield "{"
    yield from _indent(lines)
    yield "}"


def _indent(lines: Lines, depth: int = 1) -> Lines:
    return ("  " * depth + line for line in lines)


_STEPS: dict[type, Any] = {KernelStep: _kernel, TemplateStep: _template, LoopStep: _loop, BranchStep: _branches}
