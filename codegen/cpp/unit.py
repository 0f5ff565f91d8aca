"""One translation unit for a whole Schedule: its kernels, its templates, its entry points.

    dynacomp_shapes(sizes, out)     arena bytes, then every output's dimensions
    dynacomp_run(rt, inputs, outputs, sizes, arena, consts)

Kernels that steps share are emitted once; `steps` says how each is called. The small ones of small loops
are inlined, so that what a loop carries stays in registers.

Templates, each as dear to compile as several kernels, are units of their own (`parts`), compiled once for a machine
and linked. Those that cannot be (`Template.instances` is None) stand in this one.

The text can be compiled as a whole, or as DYNACOMP_JOBS objects side by side (see `jobs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp import jobs, types
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.codegen.cpp.loops import kernel_body
from dynacomp.codegen.cpp.steps import buffers_of, entry_frame, frame_code, inlined, template_dtypes
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.schedule import KernelStep, Schedule, TemplateStep, all_steps
from dynacomp.lowering.kernel_ir.loops import Kernel

Lines = Iterator[str]
INLINE = "static inline __attribute__((always_inline))"


def unit_source(schedule: Schedule, exact: bool) -> str:
    """The C++ of a Schedule without ExternSteps (`segments` cuts those out first)."""
    return "\n".join(_unit(schedule, exact)) + "\n"


def kernel_names(schedule: Schedule) -> list[str]:
    """What the Schedule's steps are called, in order, those of loops among them."""
    return [label for s in all_steps(schedule) if (label := getattr(s, "label", ""))]


def _unit(schedule: Schedule, exact: bool) -> Lines:
    yield f"// {schedule.name}"
    yield '#include "unit.h"'
    kernels = kernels_of(schedule)
    names = {id(k): f"kernel{n}_{cpp_name(k.name)}" for n, k in enumerate(kernels)}
    small = inlined(schedule)
    bodies = {id(k): [*_kernel(k, names[id(k)], exact, id(k) in small)] for k in kernels}
    entry = [*_shapes(schedule), "", *_entry(schedule, names)]
    sizes = {key: sum(map(len, body)) for key, body in bodies.items() if key not in small}
    places = jobs.shared_out(sizes, sum(map(len, entry)), bool(_own_templates(schedule)))
    yield from jobs.macro()
    yield from _includes(schedule)
    yield "namespace dynacomp {"
    yield from (f"{_head(k, names[id(k)])};" for k in kernels if id(k) not in small)
    for key, body in bodies.items():
        yield ""
        yield "#if DYNACOMP_JOB == 0" if key in small else f"#if KERNEL_JOB({places[key]}) == DYNACOMP_JOB"
        yield from body
        yield "#endif"
    yield ""
    yield "}  // namespace dynacomp"
    yield ""
    yield "#if DYNACOMP_JOB == 0"
    yield from entry
    yield "#endif"


def _includes(schedule: Schedule) -> Lines:
    """What the templates that the Schedule calls need."""
    if any(TEMPLATES[t].instances for t in _used_templates(schedule)):
        yield '#include "calls.h"'
    if _own_templates(schedule):
        yield "#if DYNACOMP_JOB == 0"
        yield from (f'#include "{header}"' for header in _template_headers(schedule))
        yield from _template_sources(schedule)
        yield "#endif"


def jobs_for(schedule: Schedule, source: str, threads: int) -> int:
    """How many compilers to run side by side for the text of a Schedule."""
    return jobs.jobs_for(len(kernels_of(schedule)), len(source), threads, bool(_own_templates(schedule)))


def kernels_of(schedule: Schedule) -> list[Kernel]:
    """The kernels of a Schedule in order, each once."""
    return list({id(s.kernel): s.kernel for s in of_class(KernelStep, all_steps(schedule))}.values())


def _used_templates(schedule: Schedule) -> list[str]:
    return sorted({s.template for s in of_class(TemplateStep, all_steps(schedule))})


def _own_templates(schedule: Schedule) -> list[str]:
    """Those that the unit itself must hold."""
    return [t for t in _used_templates(schedule) if TEMPLATES[t].instances is None]


def _template_headers(schedule: Schedule) -> list[str]:
    return sorted({TEMPLATES[name].header for name in _own_templates(schedule)})


def _template_sources(schedule: Schedule) -> list[str]:
    return [text for name in _own_templates(schedule) if (text := TEMPLATES[name].source)]


def parts(schedule: Schedule) -> tuple[str, ...]:
    """The units of the templates that the Schedule calls, one for each set of types, in order of their text."""
    return tuple(sorted(set(_parts(schedule))))


def _parts(schedule: Schedule) -> Lines:
    for step in of_class(TemplateStep, schedule.steps):
        if instances := TEMPLATES[step.template].instances:
            yield from instances(step.params, template_dtypes(step, schedule))
    for inner in (inner for step in schedule.steps for inner in step.inner):
        yield from _parts(inner)


# ---- kernels ----------------------------------------------------------------------------------

def _head(kernel: Kernel, name: str, linkage: str = "__attribute__((noinline))") -> str:
    written = {b.name for b in kernel.outputs}
    params = ["[[maybe_unused]] const dynacomp_runtime* rt"]
    params += [f"{'' if b.name in written else 'const '}{types.storage(b.dtype)}* const {cpp_name(b.name)}"
               for b in buffers_of(kernel).values()]
    params += [f"[[maybe_unused]] const int64_t {cpp_name(s.name)}" for s in kernel.sizes]
    return f"{linkage} void {name}({', '.join(params)})"


def _kernel(kernel: Kernel, name: str, exact: bool, small: bool) -> Lines:
    yield f"{_head(kernel, name, INLINE) if small else _head(kernel, name)} {{"
    for line in kernel_body(kernel, exact, small):
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
    told = [index_code(schedule.arena), *(index_code(dim) for aval in schedule.output_avals for dim in aval.shape)]
    known = [text if text.isdigit() else "0" for text in told]  # as data: g++ takes a millisecond for each assignment
    yield "  static const int64_t known[] = {"
    yield from (f"    {', '.join(known[k:k + 16])}," for k in range(0, len(known), 16))
    yield "  };"
    yield "  __builtin_memcpy(out, known, sizeof known);"
    yield from (f"  out[{k}] = {text};" for k, text in enumerate(told) if not text.isdigit())
    yield "}"


def _entry(schedule: Schedule, names: Mapping[int, str]) -> Lines:
    yield 'DYNACOMP_EXPORT int dynacomp_run('
    yield "    [[maybe_unused]] const dynacomp_runtime* rt, [[maybe_unused]] void* const* inputs,"
    yield "    [[maybe_unused]] void* const* outputs, [[maybe_unused]] const int64_t* sizes,"
    yield "    [[maybe_unused]] void* arena, [[maybe_unused]] const void* const* consts) {"
    yield "  using namespace dynacomp;"
    yield from _sizes(schedule)
    yield "  try {"
    for line in frame_code(entry_frame(schedule), names):
        yield f"    {line}"
    yield "  } catch (...) {"
    yield "    report_no_memory();"
    yield "  }"
    yield "  return __atomic_exchange_n(&out_of_memory, 0, __ATOMIC_RELAXED);"
    yield "}"
