"""The steps of a Schedule as C++ statements: calls of kernels and templates, loops, branches.

A `Frame` says where a Schedule's buffers are while its steps run. That of the whole program has the caller's
pointers and the arena. A loop's body has one of its own:

    carries   two buffers each, whose pointers change places after every step; where all of a loop is small and of
              known size, arrays on the stack instead, which the compiler keeps in registers (its kernels are
              inlined, without lanes or threads)
    slices    the outer array's address, moved by the number of the step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.cost import is_small
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.schedule import BranchStep, KernelStep, LoopStep, Schedule, TemplateStep, all_steps
from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel

Lines = Iterator[str]
Names = Mapping[int, str]
STACK = 4096
"""Bytes of carries and temporaries up to which a loop keeps them on the stack."""


@dataclass(frozen=True)
class Frame:
    """Where the buffers of a Schedule are, in C++: addresses of its inputs and outputs, of its constants, and of its
    arena; "" for temporaries that are arrays of their own. `depth`: how many loops are around it."""

    schedule: Schedule
    inputs: Sequence[str]
    outputs: Sequence[str]
    consts: Sequence[str] = ()
    arena: str = ""
    depth: int = 0

    def where(self, name: str) -> str:
        """The address of a buffer."""
        name = self.schedule.aliases.get(name, name)
        places = self.places()
        return places[name] if name in places else self.temporary(name)

    def places(self) -> dict[str, str]:
        """The addresses that are given. Of equal outputs the first is written, and copied to the others."""
        schedule = self.schedule
        places = {n: text for n, text in reversed(list(zip(schedule.outputs, self.outputs)))
                  if n not in schedule.aliases}
        places |= dict(zip(schedule.consts, self.consts))
        changed = written(schedule)
        return places | {n: t for n, t in reversed(list(zip(schedule.inputs, self.inputs))) if n not in changed}

    def temporary(self, name: str) -> str:
        if not self.arena:
            return f"v{self.depth}_{cpp_name(name)}"
        return f"((char*){self.arena} + {index_code(self.schedule.offsets[name])})"

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
    if not frame.arena:
        yield from (_array(frame.temporary(n), frame.schedule.buffers[n]) for n in frame.schedule.offsets)
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
    dtypes = [np.dtype(frame.schedule.buffers[b].dtype) for b in (*step.operands, *step.results)]
    yield TEMPLATES[step.template].call(step.params, dtypes, [frame.where(o) for o in step.operands],
                                        [frame.where(r) for r in step.results], index_code)


def written(schedule: Schedule) -> set[str]:
    """Schedule buffers that some step writes."""
    names: set[str] = set()
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            names |= {step.bindings.get(b.name, b.name) for b in step.kernel.outputs}
        else:
            names |= set(step.results)
    return names


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
        kind = types.storage(buffer.dtype)
        return f"copy_few<{_numel(buffer)}>(({kind}*){target}, (const {kind}*){source});"
    return f"__builtin_memcpy({target}, {source}, (uint64_t)({_bytes(buffer)}));"


def _bytes(buffer: Buffer) -> str:
    return f"({index_code(buffer.numel)})*{np.dtype(buffer.dtype).itemsize}"


# ---- loops ------------------------------------------------------------------------------------

def _loop(step: LoopStep, frame: Frame, names: Names) -> Lines:
    yield "{"
    yield from _indent((_small_loop if small(step) else _big_loop)(step, frame, names))
    yield "}"


def _big_loop(step: LoopStep, frame: Frame, names: Names) -> Lines:
    """The step reads a carry at `r`, writes the next one at `w`; `x` is the spare buffer, later the one just read."""
    first = [frame.where(o) for o in step.operands[step.consts:step.consts + step.carries]]
    last = [frame.where(r) for r in step.results[:step.carries]]
    read, write, spare = ([f"{letter}{frame.depth}_{k}" for k in range(step.carries)] for letter in "rwx")
    for k in range(step.carries):
        yield f"[[maybe_unused]] char* {read[k]} = (char*){first[k]};"
        yield f"[[maybe_unused]] char* {write[k]} = (char*){last[k]};"
        yield f"[[maybe_unused]] char* {spare[k]} = (char*){frame.where(step.scratch[k])};"
    arenas = [frame.where(a) for a in step.scratch[step.carries:]]
    yield from _iterations(step, frame, names, read, write, arenas)
    yield from (f"  {r} = {w}; {w} = {x}; {x} = {r};" for r, w, x in zip(read, write, spare))
    yield "}"
    for r, result, buffer in zip(read, last, _carried(step)):
        yield f"if ({r} != (char*){result}) {_copy(buffer, result, r)}"


def _small_loop(step: LoopStep, frame: Frame, names: Names) -> Lines:
    """What is carried is in an array, and the next one is copied there after each step."""
    first = [frame.where(o) for o in step.operands[step.consts:step.consts + step.carries]]
    last = [frame.where(r) for r in step.results[:step.carries]]
    read, write = ([f"{letter}{frame.depth}_{k}" for k in range(step.carries)] for letter in "rw")
    carried = _carried(step)
    for name, source, buffer in zip(read, first, carried):
        yield _array(name, buffer)
        yield _copy(buffer, name, source)
    yield from (_array(name, buffer) for name, buffer in zip(write, carried))
    yield from _iterations(step, frame, names, read, write, [""] * len(step.inner))
    yield from ("  " + _copy(b, r, w) for b, r, w in zip(carried, read, write))
    yield "}"
    yield from (_copy(b, result, r) for b, result, r in zip(carried, last, read))


def _carried(step: LoopStep) -> list[Buffer]:
    return [step.body.buffers[n] for n in step.body.inputs[step.consts:step.consts + step.carries]]


def _iterations(step: LoopStep, frame: Frame, names: Names, read: list[str], write: list[str],
                arenas: list[str]) -> Lines:
    """The head of the `for` and the body's steps; the caller closes it."""
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
        arena = "" if small(step) else frame.where(scratch)
        yield from _indent(frame_code(frame.inside(inner, operands, results, arena), names), 2)
        yield "    break;"
        yield "  }"
    yield "}"


# ---- what is small ----------------------------------------------------------------------------

def small(step: LoopStep | BranchStep) -> bool:
    """Do its carries and temporaries fit on the stack?"""
    carried = _carried(step) * 2 if isinstance(step, LoopStep) else []
    own = [s.buffers[n] for s in step.inner for n in s.offsets]
    return sum(map(_static_bytes, [*carried, *own])) <= STACK


def inlined(schedule: Schedule) -> set[int]:
    """The ids of the kernels that are written where they are called: small ones in small loops and branches."""
    steps = (s for s in all_steps(schedule) if isinstance(s, (LoopStep, BranchStep)) and small(s))
    kernels = (s.kernel for step in steps for inner in step.inner for s in inner.steps if isinstance(s, KernelStep))
    return {id(k) for k in kernels if is_small(k)}


def _static_bytes(buffer: Buffer) -> float:
    numel = sympy.sympify(buffer.numel)
    return int(numel) * np.dtype(buffer.dtype).itemsize if numel.is_Integer else float("inf")


def _is_few(buffer: Buffer) -> bool:
    return _static_bytes(buffer) <= 256


def _numel(buffer: Buffer) -> int:
    return int(sympy.sympify(buffer.numel))


def _array(name: str, buffer: Buffer) -> str:
    count = max(1, _numel(buffer))
    return f"[[maybe_unused]] alignas(64) {types.storage(buffer.dtype)} {name}[{count}];"


def _braced(lines: Lines) -> Lines:
    yield "{"
    yield from _indent(lines)
    yield "}"


def _indent(lines: Lines, depth: int = 1) -> Lines:
    return ("  " * depth + line for line in lines)


_STEPS: dict[type, Any] = {KernelStep: _kernel, TemplateStep: _template, LoopStep: _loop, BranchStep: _branches}
