"""From a captured Graph to a Program: lowering, passes, schedule, backend, in that order.

`compile_graph(graph, options)` is the whole middle and back of the compiler as one function of
named steps. Each is timed; under `verify` the IR is checked between all of them. A backend that
cannot take the Graph hands it to XLA, with one notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jax.sharding import SingleDeviceSharding

from dynacomp import counters, notices
from dynacomp.capture import frame
from dynacomp.capture.base.errors import CompileError, NeverCalled
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bodies.placement import default_device
from dynacomp.capture.graph.avals import as_struct
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.compiler import CompilerError
from dynacomp.driver import recall
from dynacomp.driver.calling_back import giving_up, may_raise
from dynacomp.driver.foreign import Foreign, is_foreign, program_of
from dynacomp.driver.interpreted import interpreted
from dynacomp.driver.pass_list import CAPTURED, DEFAULT, KERNELS, PRIMITIVE, Form, Pass, current, within
from dynacomp.driver.placed import PlacedProgram
from dynacomp.driver.verifying import check_kept, traced_outputs, verify
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import Schedule
from dynacomp.lowering.fuse.seams import seams
from dynacomp.lowering.kernel_ir.machine import CPU, GPU
from dynacomp.lowering.passes.kernels import REGISTERED, use_kernels
from dynacomp.lowering.primitives.high_types import HighType
from dynacomp.lowering.primitives.placing import Placed
from dynacomp.lowering.primitives.translate import Fixed, Lowered, lower
from dynacomp.lowering.sizes.dims import SymbolicShapeError
from dynacomp.options import Options

MACHINES = {"gpu": GPU}  # what kernels are planned for, by JAX's platform; else a CPU
INTERPRETER = "eager"  # the backend's name that leaves a Graph uncompiled: capture alone is tested


@dataclass(frozen=True)
class Returns:
    """How what a captured Graph returns is made of what a native program gives. slots: where each output is among the
    `flat` ones, or a `Fixed`; committed: those of the flat ones that the program put on the device itself."""

    slots: tuple[Any, ...]
    flat: int
    committed: tuple[int, ...] = ()


@dataclass(eq=False)
class Compiled:
    """A Program and what was made on the way, for `explain`. key: what `recall` keeps it under."""

    program: Callable[..., Any]
    graph: Graph
    lowered: Graph | None = None
    schedule: Schedule | None = None
    backend: str = ""
    key: str | None = None
    returns: Returns | None = None


def compile_graph(graph: Graph, options: Options, places: Collection[Any] = ()) -> Compiled:
    """The Program of a captured Graph: called with its flat inputs, it returns the flat outputs.

    places: the shardings of its inputs; XLA takes those that are not on one CPU device of ours.

    Raises SymbolicShapeError when the Graph cannot be compiled for unknown sizes. Whatever else goes
    wrong, a missing compiler or a defect of ours, ends in a Program of XLA's and one notice.
    """
    notices.log("graph", lambda: str(graph))
    graph = run_passes(CAPTURED, graph, graph, options)
    if options.backend == INTERPRETER:
        counters.count("regions", INTERPRETER)
        return Compiled(interpreted(graph), graph, backend=INTERPRETER)
    made = Compiled(_nothing, graph)
    if is_foreign(options.backend) and options.backend.form == CAPTURED:
        reason = brought(made, options.backend, options)
        return traced_by_xla(made, f"backend {options.backend.name}: {reason}") if reason else recorded(made)
    spread = elsewhere(places)
    if spread:
        return placed_by_jax(made, spread[0])
    try:
        lowered = lowered_graph(made, options)
    except (SymbolicShapeError, NeverCalled, CompileError):
        raise
    except Placed as why:
        return placed_by_jax(made, str(why))
    except HighType as why:
        return traced_by_xla(made, str(why))
    except ours(Exception) as error:
        return traced_by_xla(made, f"lowering: {defect(error)}")
    for name in candidates(options):
        reason = None if made.backend else attempt(made, name, options)
        if reason is None:
            made.returns = Returns(lowered.slots, len(lowered.outputs), lowered.committed)
            made.program = returning(made.program, made.returns)
            if may_raise(made.lowered):
                made.program = giving_up(made.program, *place(graph))
            return recorded(made)
        fallback(graph, f"backend {getattr(name, 'name', name)}: {reason}")
    return traced_by_xla(made, "")


def elsewhere(places: Collection[Any]) -> list[str]:
    """Why a program of one device does not put its results where eager JAX does: an input lies elsewhere, or JAX
    makes arrays elsewhere."""
    first, default = jax.local_devices()[0], default_device()
    apart = [p for p in places if p.device_set != {first} or not isinstance(p, SingleDeviceSharding)]
    made = [] if default == first else [f"arrays are made on {default}, the default device"]
    meshed = [] if jax.sharding.get_abstract_mesh().empty else ["arrays are made on the mesh that jax.set_mesh has set"]
    return [*(f"an input lies on {p}" for p in apart), *made, *meshed]


def lowered_graph(made: Compiled, options: Options) -> Lowered:
    """Lowers the Graph and runs the passes, unless a Program of what it lowers to is known."""
    with counters.timed("lower"):
        lowered = lower(made.graph)
    first: Any = seen(lowered.graph, None, "lower", options)
    with counters.timed("recall"):
        recalled(made, first, options)
    made.lowered = first if made.backend else run_passes(PRIMITIVE, first, made.graph, options)
    return lowered


def recalled(made: Compiled, first: Graph, options: Options) -> None:
    """Sets the Program that another process has kept of the same primitive Graph."""
    if candidates(options)[0] == recall.BACKEND:
        made.key = recall.key_of(first, options)
    program = made.key and recall.recalled(made.key, settings_of(options))
    if program:
        made.program, made.backend = program, recall.BACKEND


def settings_of(options: Options) -> dict[str, Any]:
    """What backends take."""
    return {"numerics": options.numerics, "threads": options.threads, "cache_dir": options.cache_dir,
            "cxx": options.cxx, "tell": told}


def run_passes(level: str, form: Any, graph: Graph, options: Options) -> Any:
    """`form`, a form of the captured `graph`, after all passes of its level."""
    for one in within(options.passes or current(), options.memory_budget, sizes_at_hand(graph)).at(level):
        if options.numerics == "exact" and not one.exact:
            continue
        with counters.timed(one.name):
            after = one.run(form) if is_ours(one) else foreign(one, form, graph, options)
        form = seen(after, form, one.name, options)
    return form


def sizes_at_hand(graph: Graph) -> tuple[tuple[str, int], ...]:
    """The values that the unknown sizes of a captured Graph have in the call that was captured, by name."""
    scopes = {id(n.scope): n.scope for p in graph.placeholders for n in getattr(p.aval, "shape", ()) if is_symbolic(n)}
    return tuple(sorted((name, n) for scope in scopes.values() for name, n in scope.values.items() if n is not None))


def is_ours(one: Pass) -> bool:
    """Whether nothing of the program's runs in a pass."""
    plain = replace(one, run=getattr(one.run, "func", one.run))  # `within` gives arguments to one of ours
    return plain in DEFAULT.rows and not (REGISTERED and one.name == use_kernels.__name__)


def foreign(one: Pass, form: Form, graph: Graph, options: Options) -> Form:
    """What a pass of the user's makes, where it keeps to the contract; else `form` itself, with a notice."""
    try:
        after = one.run(form)
        check_kept(form, after)
    except (SymbolicShapeError, NeverCalled):
        raise
    except ours(Exception) as error:
        reason = f"pass {one.name}: {type(error).__name__}: {error}"
        if options.fullgraph:
            raise CompileError(reason) from error
        notices.tell("pass left out", *place(graph), reason)
        return form
    return after


def seen(form: Form, before: Form | None, step: str, options: Options) -> Form:
    """`form`, which `step` has made of `before`: verified and shown, where that is asked for."""
    if options.verify:
        verify(form)
    if form is not before:
        notices.log("passes", lambda: f"after {step}:\n{form}")
    return form


def defect(error: Exception) -> str:
    """One line about an exception that none of our own stages may raise; tests see it raised."""
    if frame.strict_errors:
        raise error
    return f"{type(error).__name__}: {error} (a defect in dynacomp: please report it)"


def fallback(graph: Graph, reason: str) -> None:
    notices.tell("fallback", *place(graph), f"{reason}; XLA compiles the region",
                 hint="dynacomp.list_backends() says what each backend needs")


def placed_by_jax(made: Compiled, reason: str) -> Compiled:
    """A Graph whose arrays JAX places: by eager JAX's rules, so that each lies where eager JAX puts it."""
    fallback(made.graph, reason)
    made.program, made.backend = PlacedProgram(interpreted(made.graph), place(made.graph)), "xla"
    counters.count("regions", made.backend)
    return made


def traced_by_xla(made: Compiled, reason: str) -> Compiled:
    """The captured Graph as JAX itself traces and compiles it: needs none of our lowering.

    Raises where JAX cannot trace it either.
    """
    program = jax_jit(interpreted(made.graph))
    jax.eval_shape(program, *(as_struct(n.aval) for n in made.graph.placeholders))
    if reason:
        fallback(made.graph, reason)
    made.program, made.backend = program, "xla"
    counters.count("regions", made.backend)
    return made


def _nothing(*arrays: Any) -> tuple[()]:
    return ()


def candidates(options: Options) -> tuple[str | Foreign, ...]:
    """Backends to try, in order; XLA takes what the others cannot."""
    if options.backend != "auto":
        return tuple(dict.fromkeys((options.backend, "xla")))
    platform = jax.default_backend()
    first = {"cpu": "cpp", "gpu": "triton"}.get(platform)
    return (first, "xla") if first else ("xla",)


def brought(made: Compiled, row: Foreign, options: Options) -> str | None:
    """Compiles with a backend that the program brought; None, or why it could not. CompileError under fullgraph."""
    try:
        if row.form == CAPTURED:
            form, outputs = made.graph, traced_outputs(made.graph)
        else:
            assert made.lowered is not None
            form, outputs = made.lowered, made.lowered.nodes[-1].aval
        made.program = program_of(row, scheduled(made, options) if row.form == KERNELS else form, outputs)
    except (SymbolicShapeError, NeverCalled, CompileError):
        raise
    except ours(Exception) as error:
        if options.fullgraph:
            raise CompileError(f"backend {row.name}: {type(error).__name__}: {error}") from error
        return f"{type(error).__name__}: {error}"
    made.backend = row.name
    return None


def scheduled(made: Compiled, options: Options) -> Schedule:
    """The Schedule of the primitive Graph, after the passes over kernels; made once."""
    assert made.lowered is not None
    if made.schedule is None:
        with counters.timed("schedule"):
            planned = schedule(made.lowered, MACHINES.get(jax.default_backend(), CPU))
        if options.verify:
            verify(planned)
        made.schedule = run_passes(KERNELS, planned, made.graph, options)
    return made.schedule


def attempt(made: Compiled, name: str | Foreign, options: Options) -> str | None:
    """Compiles with one backend; None, or why it could not."""
    if isinstance(name, Foreign):
        return brought(made, name, options)
    backend, settings = BACKENDS[name], settings_of(options)
    try:
        reason = backend.unavailable(options.cxx, options.cache_dir)
        if reason is not None:
            return reason
        assert made.lowered is not None
        if backend.needs_schedule:
            scheduled(made, options)
        with counters.timed(f"codegen {name}"):
            made.program = backend.compile(made.lowered, made.schedule, settings)
        if made.key and made.schedule and name == recall.BACKEND:
            recall.keep(made.key, made.schedule, made.program, settings)
    except ours(CompilerError, OSError) as error:
        return str(error)
    except CompileError:
        raise
    except ours(Exception) as error:
        return defect(error)
    made.backend = name
    return None


def told(reason: str, hint: str) -> None:
    """What a backend has to say, as a notice."""
    notices.tell("fallback", "", 0, reason, hint=hint)


def place(graph: Graph) -> tuple[str, int]:
    """The user's line that a notice about a whole Graph names: its first call's."""
    for node in graph.calls:
        if node.where:
            return node.where[-1][0], node.where[-1][1]
    return "", 0


def returning(program: Callable[..., Any], returns: Returns) -> Callable[..., Any]:
    """The program with the captured Graph's results: those of the native one in their order, the ones that the program
    put on the device committed to it, and constants where no input reaches."""
    slots, held = returns.slots, returns.committed
    if slots == tuple(range(returns.flat)) and not held:
        return program

    def pick(*arrays: Any) -> tuple[Any, ...]:
        flat = program(*arrays)
        if held:
            flat = [hold(x) if i in held else x for i, x in enumerate(flat)]
        return tuple(s.value if isinstance(s, Fixed) else flat[s] for s in slots)

    pick.inner = program  # type: ignore[attr-defined]
    return pick


def hold(x: Any) -> Any:
    """`x`, committed to the device where it lies; nothing is copied."""
    return x if x.committed else jax.device_put(x, x.sharding)


def recorded(made: Compiled) -> Compiled:
    """Counts and shows what was compiled."""
    program: Any = getattr(made.program, "inner", made.program)
    counters.count("regions", made.backend)
    counters.count("kernels", made.backend, by=len(program.kernels))
    for reason in program.externs:
        counters.count("externs", reason or "no lowering")
    for seam in seams(made.schedule) if program.externs and made.schedule is not None else ():
        notices.tell("seam", seam.file, seam.line, f"XLA computes this in the midst of compiled code: {seam.reason}",
                     hint="each such call costs tens of microseconds")
    notices.log("kernels", lambda: "\n".join(program.kernels))
    notices.log("code", lambda: "\n\n".join(f"// {n}\n{t}" for n, t in program.source.items()))
    return made
