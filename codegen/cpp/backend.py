"""The C++ backend: a Schedule becomes one translation unit, one native call.

    program = compile(schedule, schedule.output_avals, {"threads": 2})
    outputs = program(*inputs)

Options: numerics ("default" | "exact"), threads, cache_dir, cxx (command, () to search), donate (input
positions), tell (a function of reason and hint, for what the user should know; a warning of the logger
"dynacomp" where there is none). ExternSteps cut the Schedule: native code, XLA, native code (see `segments`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place

from dynacomp.capture.graph.avals import Aval, is_aval
from dynacomp.capture.graph.graph import Graph
from dynacomp.codegen.cache import Request, Tell, obtain
from dynacomp.codegen.choices import choice
from dynacomp.codegen.compiler import CompilerError, open_library
from dynacomp.codegen.cpp.segments import Segment, has_externs, segments
from dynacomp.codegen.cpp.unit import jobs_for, kernel_names, parts, unit_source
from dynacomp.codegen.dims import free_in, open_sizes, shaped
from dynacomp.codegen.program import Call, SeamProgram, native_program
from dynacomp.codegen.toolchain import toolchain
from dynacomp.codegen.xla import as_function
from dynacomp.lowering.fuse.schedule import ExternStep, Schedule
from dynacomp.lowering.primitives.specialise import specialise

ENTRIES = ("dynacomp_run", "dynacomp_shapes")  # what every translation unit defines
DEFAULT_CACHE = Path("~/.cache/dynacomp")
LOGGER = logging.getLogger("dynacomp")


def _warn(reason: str, hint: str) -> None:
    LOGGER.warning("dynacomp: fallback: %s (hint: %s)", reason, hint)


@dataclass(frozen=True)
class Settings:
    """The options of one compilation, with their defaults."""

    numerics: str = "default"
    threads: int = 1
    cache_dir: Path = DEFAULT_CACHE
    cxx: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()
    tell: Tell = _warn


def settings(options: Mapping[str, Any]) -> Settings:
    """The Settings of an options mapping; other backends' options are not looked at."""
    known = {k: options[k] for k in Settings.__dataclass_fields__ if k in options}
    made = Settings(**known)
    return replace(made, cache_dir=Path(made.cache_dir).expanduser(), cxx=tuple(made.cxx),
                   donate=tuple(made.donate))


def unavailable(cxx: Sequence[str] = (), cache_dir: Path = DEFAULT_CACHE) -> str | None:
    """None, or in one line why this process cannot compile C++."""
    try:
        toolchain(tuple(cxx), Path(cache_dir).expanduser())
    except CompilerError as error:
        return str(error)
    return None


def compile_cpp(graph: Any, schedule: Schedule | None, options: Mapping[str, Any]) -> Any:
    """`compile` as the table of backends wants it; `graph` is not looked at."""
    assert schedule is not None
    return compile(schedule, schedule.output_avals, options)


def compile(schedule: Schedule, output_avals: Sequence[Aval], options: Mapping[str, Any]) -> Any:
    """The Program of a Schedule (see `program`). Raises CompilerError where there is no working compiler
    or it refuses the code."""
    chosen = settings(options)
    schedule = replace(schedule, output_avals=tuple(output_avals))
    if len(schedule.output_avals) != len(schedule.outputs):
        raise ValueError(f"{len(schedule.outputs)} outputs but {len(schedule.output_avals)} output avals")
    started = time.perf_counter()
    make = _seams if has_externs(schedule) else _native
    program = make(schedule, chosen)
    program.compile_seconds = time.perf_counter() - started
    return program


def _native(schedule: Schedule, chosen: Settings) -> Any:
    exact = chosen.numerics == "exact"
    source = unit_source(schedule, exact)
    compiler = toolchain(chosen.cxx, chosen.cache_dir)
    request = Request(source, exact, compiler, jobs_for(schedule, source, chosen.threads), parts(schedule))
    path, cached = obtain(request, chosen.cache_dir, chosen.tell)
    return loaded(path, schedule, {f"{schedule.name}.cc": source}, kernel_names(schedule), chosen, cached)


def loaded(path: Path, schedule: Schedule, source: Mapping[str, str], kernels: Sequence[str], chosen: Settings,
           cached: bool) -> Any:
    """The Program of a library; of the Schedule only the outside is looked at. CompilerError where it does not load."""
    device = jax.local_devices(backend="cpu")[0]
    program = native_program(open_library(path, ENTRIES), schedule, chosen.threads, chosen.donate, device)
    program.library = path.stem
    return _describe(program, source, kernels, (), cached)


def _describe(program: Any, source: Mapping[str, str], kernels: Sequence[str], externs: tuple[str, ...],
              cached: bool) -> Any:
    program.backend = "cpp"
    program.source, program.kernels, program.externs = source, tuple(kernels), externs
    program.cached = cached
    return program


def _seams(schedule: Schedule, chosen: Settings) -> Any:
    calls: list[Call] = []
    source: dict[str, str] = {}
    kernels: list[str] = []
    externs: list[str] = []
    cached = True
    for part in segments(schedule):
        if isinstance(part, Segment):
            inner = part.schedule
            native = _native(inner, replace(chosen, donate=()))
            calls.append(Call(native, inner.inputs, inner.outputs))
            source |= native.source
            kernels += native.kernels
            cached &= native.cached
        else:
            calls.append(_extern(part, schedule))
            externs.append(part.why)
    consts = {name: jax.numpy.asarray(value) for name, value in schedule.consts.items()}
    program = SeamProgram(tuple(calls), schedule, _typed, chosen.donate, consts)
    return _describe(program, source, kernels, tuple(externs), cached)


def _extern(step: ExternStep, schedule: Schedule) -> Call:
    """The XLA executable of a step; its operands' and results' buffers may have another shape of as many elements. It
    also takes the Schedule's inputs from which it reads the sizes that its operands do not tell. Of branches the one
    that is chosen runs alone (`choice`)."""
    shapes = [p.aval.shape for p in step.graph.placeholders]
    kept = [schedule.buffers[r].shape for r in step.results]
    told = {dim for shape in shapes for dim in shape}
    inner = _symbols(step.graph) - told
    wanted = inner.union(*(free_in(shape) for shape in (*shapes, *kept) if open_sizes(shape) > 1))
    read = [(symbol, *where) for symbol, where in schedule.sizes if symbol in wanted]

    def call(*given: Any) -> tuple[Any, ...]:
        operands, others = given[:len(shapes)], given[len(shapes):]
        sizes = {symbol: x.shape[dim] for x, (symbol, _, dim) in zip(others, read)}
        named = {symbol.name: size for symbol, size in sizes.items() if symbol in inner}
        function = as_function(specialise(step.graph, named) if named else step.graph)
        found = function(*(shaped(x, shape, sizes) for x, shape in zip(operands, shapes)))
        return tuple(shaped(x, shape, sizes) for x, shape in zip(found, kept))

    operands = (*step.operands, *(schedule.inputs[place] for _, place, _ in read))
    return Call(not read and choice(step.graph, kept) or jax_jit(call), operands, tuple(step.results))


def _symbols(graph: Graph) -> set[Any]:
    """The symbols in the shapes of a Graph's values."""
    avals = jax.tree.leaves([node.aval for node in graph.nodes], is_leaf=is_aval)
    return set().union(*(free_in(aval.shape) for aval in filter(is_aval, avals)))


def _typed(value: Any, aval: Aval) -> Any:
    """`value` as a jax Array with the weak type of `aval`."""
    if not isinstance(value, jax.Array):
        value = jax.numpy.asarray(np.asarray(value, aval.dtype))
    if value.weak_type == aval.weak_type:
        return value
    return value._rewrap_with_aval_and_sharding(
        jax.core.ShapedArray(value.shape, value.dtype, weak_type=aval.weak_type), value.sharding)
