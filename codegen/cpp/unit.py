"""One translation unit for a whole Schedule: its kernels, its templates, its entry points.

    dynacomp_shapes(sizes, out)     arena bytes, then every output's dimensions
    dynacomp_run(rt, inputs, outputs, sizes, arena, consts)

Kernels that steps share are emitted once; `bindings` say which buffers each step gives them.

The text can be compiled as a whole, or as DYNACOMP_JOBS objects side by side: the job with the number
DYNACOMP_JOB holds every DYNACOMP_JOBS-th kernel, job 0 the entry points as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.codegen.cpp.loops import kernel_body
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.schedule import KernelStep, Schedule, TemplateStep
from dynacomp.lowering.kernel_ir.loops import Buffer, Kernel

Lines = Iterator[str]


def unit_source(schedule: Schedule, exact: bool) -> str:
    """The C++ of a Schedule without ExternSteps (`segments` cuts those out first)."""
    return "\n".join(_unit(schedule, exact)) + "\n"


def kernel_names(schedule: Schedule) -> list[str]:
    """What the Schedule's steps are called, in order."""
    return [s.kernel.name if isinstance(s, KernelStep) else s.template for s in schedule.steps
            if isinstance(s, (KernelStep, TemplateStep))]


def _unit(schedule: Schedule, exact: bool) -> Lines:
    yield f"// {schedule.name}"
    for header in ("math.h", "runtime.h", *_template_headers(schedule)):
        yield f'#include "{header}"'
    yield "#ifndef DYNACOMP_JOBS"
    yield "#define DYNACOMP_JOBS 1"
    yield "#define DYNACOMP_JOB 0"
    yield "#endif"
    yield "namespace dynacomp {"
    kernels = kernels_of(schedule)
    names = {id(k): f"kernel{n}_{cpp_name(k.name)}" for n, k in enumerate(kernels)}
    yield from (f"{_head(k, names[id(k)])};" for k in kernels)
    for number, kernel in enumerate(kernels):
        yield ""
        yield f"#if {number} % DYNACOMP_JOBS == DYNACOMP_JOB"
        yield from _kernel(kernel, names[id(kernel)], exact)
        yield "#endif"
    yield ""
    yield "}  // namespace dynacomp"
    yield ""
    yield "#if DYNACOMP_JOB == 0"
    yield from _shapes(schedule)
    yield ""
    yield from _entry(schedule, names)
    yield "#endif"


def kernels_of(schedule: Schedule) -> list[Kernel]:
    """The kernels of a Schedule in order, each once."""
    return list({id(s.kernel): s.kernel for s in schedule.steps if isinstance(s, KernelStep)}.values())


def _template_headers(schedule: Schedule) -> list[str]:
    used = {s.template for s in schedule.steps if isinstance(s, TemplateStep)}
    return sorted({TEMPLATES[name].header for name in used})


# ---- kernels ----------------------------------------------------------------------------------

def buffers_of(kernel: Kernel) -> dict[str, Buffer]:
    """The kernel's parameters in order: inputs, then outputs that are not inputs."""
    return {b.name: b for b in (*kernel.inputs, *kernel.outputs)}


def _head(kernel: Kernel, name: str) -> str:
    written = {b.name for b in kernel.outputs}
    params = ["[[maybe_unused]] const dynacomp_runtime* rt"]
    params += [f"{'' if b.name in written else 'const '}{types.storage(b.dtype)}* const {cpp_name(b.name)}"
               for b in buffers_of(kernel).values()]
    params += [f"[[maybe_unused]] const int64_t {cpp_name(s.name)}" for s in kernel.sizes]
    return f"__attribute__((noinline)) void {name}({', '.join(params)})"


def _kernel(kernel: Kernel, name: str, exact: bool) -> Lines:
    yield f"{_head(kernel, name)} {{"
    for line in kernel_body(kernel, exact):
        yield f"  {line}"
    yield "}"


# ---- entry points -----------------------------------------------------------------------------

def _sizes(schedule: Schedule) -> Lines:
    for position, (symbol, _) in enumerate(schedule.sizes):
        yield f"  [[maybe_unused]] const int64_t {cpp_name(symbol.name)} = sizes[{position}];"


def _shapes(schedule: Schedule) -> Lines:
    """Evaluates what the launcher must know before it calls: arena bytes and output dimensions."""
    yield 'DYNACOMP_EXPORT void dynacomp_shapes([[maybe_unused]] const int64_t* sizes, int64_t* out) {'
    yield "  using namespace dynacomp;"
    yield from _sizes(schedule)
    yield f"  *out++ = {index_code(schedule.arena)};"
    for aval in schedule.output_avals:
        for dim in aval.shape:
            yield f"  *out++ = {index_code(dim)};"
    yield "}"


def _entry(schedule: Schedule, names: Mapping[int, str]) -> Lines:
    yield 'DYNACOMP_EXPORT int dynacomp_run('
    yield "    [[maybe_unused]] const dynacomp_runtime* rt, [[maybe_unused]] void* const* inputs,"
    yield "    [[maybe_unused]] void* const* outputs, [[maybe_unused]] const int64_t* sizes,"
    yield "    [[maybe_unused]] void* arena, [[maybe_unused]] const void* const* consts) {"
    yield "  using namespace dynacomp;"
    yield from _sizes(schedule)
    where = _pointers(schedule)
    yield "  try {"
    for line in _updated_inputs(schedule, where):
        yield f"    {line}"
    for step in schedule.steps:
        yield f"    {_call(step, schedule, names, where)}"
    for line in _copies(schedule, where):
        yield f"    {line}"
    yield "  } catch (...) {"
    yield "    report_no_memory();"
    yield "  }"
    yield "  return __atomic_exchange_n(&out_of_memory, 0, __ATOMIC_RELAXED);"
    yield "}"


def _pointers(schedule: Schedule) -> Callable[[str], str]:
    """The C++ address of a Schedule buffer, as `char*` arithmetic or an argument."""
    places = {name: f"outputs[{k}]" for k, name in reversed(list(enumerate(schedule.outputs)))}
    places = {name: text for name, text in places.items() if name not in schedule.aliases}
    places |= {name: f"consts[{k}]" for k, name in enumerate(schedule.consts)}
    given = {name: f"inputs[{k}]" for k, name in reversed(list(enumerate(schedule.inputs)))}
    places |= {name: text for name, text in given.items() if name not in written(schedule)}

    def where(name: str) -> str:
        name = schedule.aliases.get(name, name)
        if name in places:
            return places[name]
        return f"((char*)arena + {index_code(schedule.offsets[name])})"

    return where


def written(schedule: Schedule) -> set[str]:
    """Schedule buffers that some step writes."""
    names: set[str] = set()
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            names |= {step.bindings.get(b.name, b.name) for b in step.kernel.outputs}
        else:
            names |= set(step.results)
    return names


def _updated_inputs(schedule: Schedule, where: Callable[[str], str]) -> Lines:
    """An input that a step updates in place is copied to its output first: arrays never change."""
    for position, name in enumerate(schedule.inputs):
        if name in written(schedule):
            yield _copy(schedule, name, where(name), f"inputs[{position}]")


def _copy(schedule: Schedule, name: str, target: str, source: str) -> str:
    buffer = schedule.buffers[name]
    size = f"({index_code(buffer.numel)})*{np.dtype(buffer.dtype).itemsize}"
    return f"__builtin_memcpy({target}, {source}, (uint64_t)({size}));"


def _call(step: Any, schedule: Schedule, names: Mapping[int, str], where: Callable[[str], str]) -> str:
    if isinstance(step, TemplateStep):
        return _template_call(step, schedule, where)
    kernel = step.kernel
    args = ["rt"]
    for buffer in buffers_of(kernel).values():
        const = "" if buffer.name in {b.name for b in kernel.outputs} else "const "
        place = where(step.bindings.get(buffer.name, buffer.name))
        args.append(f"({const}{types.storage(buffer.dtype)}*){place}")
    args += [cpp_name(s.name) for s in kernel.sizes]
    return f"{names[id(kernel)]}({', '.join(args)});"


def _template_call(step: TemplateStep, schedule: Schedule, where: Callable[[str], str]) -> str:
    dtypes = [np.dtype(schedule.buffers[b].dtype) for b in (*step.operands, *step.results)]
    return TEMPLATES[step.template].call(step.params, dtypes, [where(o) for o in step.operands],
                                         [where(r) for r in step.results], index_code)


def _copies(schedule: Schedule, where: Callable[[str], str]) -> Lines:
    """Outputs that are inputs, consts or other outputs: a copy, as every output owns its memory."""
    seen: set[str] = set()
    changed = written(schedule)
    for position, name in enumerate(schedule.outputs):
        source = schedule.aliases.get(name, name)
        given = (source in schedule.inputs or source in schedule.consts) and source not in changed
        if given or source != name or name in seen:
            yield _copy(schedule, source, f"outputs[{position}]", where(source))
        seen.add(name)
