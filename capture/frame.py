"""Capturing a frame: from a function and its arguments to a cache entry.

`capture(fn, code, args, settings)` runs attempts until one succeeds: each starts afresh with the
lessons of those before (where the graph must break, which sizes must be fixed). The answer is an
`Outcome`: an entry for the C cache, or the reason why this frame runs as plain Python.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CellType, CodeType
from typing import Any

from dynacomp.capture import builtins, calls, kinds, opcodes, reconstruct, wrapping
from dynacomp.capture._native import Entry, GuardProgram, jax_config_token
from dynacomp.capture.base.collector import seldom_collecting
from dynacomp.capture.base.errors import Break, CompileError, GiveUp, NeedsSizes, Raised, Restart, Unbuildable
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bytecode.resume import is_resume, living, returns_tail
from dynacomp.capture.bytecode.stack_effects import check_rows
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.reconstruct.graph_break import breaking
from dynacomp.capture.reconstruct.output import Result, returning, template_of
from dynacomp.capture.symbolic import sources as S
from dynacomp.capture.symbolic.guards import Guard, StepWriter
from dynacomp.capture.symbolic.machine import (
    HANDLERS,
    Capture,
    Frame,
    Frozen,
    Lesson,
    Lessons,
    StopAtBreak,
    check_complete,
    execute,
    new_frame,
)
from dynacomp.capture.symbolic.operations import check_operations
from dynacomp.capture.symbolic.values import CellV, Lazy, NeedsConcrete, object_of, type_of
from dynacomp.capture.wrapping import size_values
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.changing_contents import content_of
from dynacomp.capture.wrapping.class_prototypes import is_made, leak

# Handlers of opcodes, rules for callees, kinds of Values, what wraps and rebuilds them: each module of these rooms
# registers its own.
for _room in (builtins, calls, kinds, opcodes, reconstruct, wrapping):
    for _module in pkgutil.iter_modules(_room.__path__, _room.__name__ + "."):
        importlib.import_module(_module.name)
check_complete()
check_operations()
check_rows(HANDLERS)
MAX_ATTEMPTS = 60
MANY_NUMBERS = 12  # so many that must be constants: all are tried as constants, not one after another
strict_errors = False  # tests set it: a defect in capture or compilation is raised, not worked around

Compile = Callable[[Graph, set[Any]], Callable[..., Any]]  # a Graph and the shardings of its inputs


@dataclass(eq=False)
class Root:
    """The frame that is captured: what exists before the symbolic machine starts."""

    fn: Any
    code: CodeType
    args: tuple[Any, ...]
    is_dynamic: Callable[[S.Source, int, int, Any], Any]  # False, True, or the least and greatest size
    is_dynamic_scalar: Callable[[S.Source, Any], bool]
    changes_often: Callable[[S.Source], bool]
    handled: BaseException | None = None  # what a caller handles
    traced: bool = False  # JAX transforms a caller: any array may be a tracer
    frame: Frame | None = None


@dataclass(eq=False)
class Info:
    """What is known of an entry, for `explain` and notices."""

    graph: Graph | None
    guards: str  # text, here and in `origin`: a Guard would keep alive what it speaks of
    origin: tuple[str, ...]
    breaks: Lesson | None
    shapes: dict[tuple[str, int], int]
    operations: int
    scalars: dict[str, Any]
    traced: bool = False  # it serves calls while JAX transforms a caller
    program: Any = None
    compiled: Any = None  # the driver's record of how the Graph was compiled
    arguments: tuple[S.Local | None, ...] = ()  # by guard: the argument whose content, sizes apart, it looks at
    contents: tuple[str, ...] = ()  # by guard: the container whose content it asks for
    resumes: Callable[[], Iterable[CodeType]] = tuple  # where the frame goes on after its graph break
    steps: int = 0  # instructions that the capture has run


@dataclass(eq=False)
class Outcome:
    """How a capture ended: `entry`, or `kind` and `detail` of why there is none."""

    entry: Entry | None = None
    info: Info | None = None
    kind: str = ""
    detail: str = ""
    lessons: Lessons = field(default_factory=Lessons)
    where: tuple[tuple[str, int, str], ...] = ()


def capture(fn: Any, code: CodeType, args: tuple[Any, ...], compile_graph: Compile,
            is_dynamic: Callable[[S.Source, int, int, Any], Any],
            is_dynamic_scalar: Callable[[S.Source, Any], bool] = lambda s, v: False,
            changes_often: Callable[[S.Source], bool] = lambda s: False, key: Any = None,
            traced: bool = False, order: int = 0) -> Outcome:
    """Captures one frame; never raises what the program raises (it is run again, as plain Python). traced: for
    calls while JAX transforms a caller, when the program runs on tracers, among others, which differentiates it
    `order` times."""
    lessons, handled = Lessons(order=order), sys.exception()
    for _ in range(MAX_ATTEMPTS):
        root = Root(fn, code, args, is_dynamic, is_dynamic_scalar, changes_often, handled, traced)
        cap = Capture(lessons, root, key)
        try:
            with seldom_collecting():
                result, stopped = attempt(cap)
            return finish(cap, result, stopped, compile_graph, lessons, key)
        except Restart:
            continue
        except NeedsSizes as needed_sizes:
            size_values.freeze(cap, needed_sizes.sizes or map(cap.scope.symbol, cap.dims), str(needed_sizes),
                               compiled=True)
        except Break as broke:
            lessons.breaks.setdefault(cap.top_step, lesson_of(cap, broke))
        except NeedsConcrete as needed:
            learn_number(cap, needed, lessons)
        except Unbuildable as alive:
            step = bisect_right(cap.births, alive.value.serial) - 1
            if step < 0 or step in lessons.breaks:
                return Outcome(kind="live", detail=unbuildable(alive), lessons=lessons)
            lessons.breaks[step] = Lesson(step, "live", unbuildable(alive), ())
        except Raised as raised:
            raised.__traceback__ = None  # frames that hold it: a cycle, with the program's objects in it
            return Outcome(kind="raises", detail=_exception_name(raised), lessons=lessons)
        except GiveUp as gave:
            return Outcome(kind=gave.kind, detail=gave.detail, lessons=lessons, where=cap.last_where)
        except RecursionError:
            return Outcome(kind="depth", detail="Python's recursion limit", lessons=lessons)
        except CompileError:
            raise
        except ours(Exception) as error:  # a defect of ours: the program must run all the same
            if strict_errors:
                raise
            return Outcome(kind="internal", detail=f"{type(error).__name__}: {error}", lessons=lessons)
        finally:
            cap.let_go()
    return Outcome(kind="attempts", detail=f"no end after {MAX_ATTEMPTS} attempts", lessons=lessons)


def unbuildable(alive: Unbuildable) -> str:
    """What cannot be rebuilt, in words. The break is where it is made, so that Python makes it."""
    return alive.detail or f"a {type(alive.value).__name__.removesuffix('V').lower()}"


def learn_number(cap: Capture, needed: NeedsConcrete, lessons: Lessons) -> None:
    """A changing number is needed as a constant: fixed while it is seen to change little, then a break."""
    found = number_sources(needed.value.source)
    counted = [s for s in found if s not in lessons.sized and may_be_size(cap, s)]
    if type(needed.value.hint) is int and counted and not any(s in lessons.fixed for s in found):
        lessons.sized.add(*counted)
    elif any(cap.root.changes_often(s) for s in found if needed.value.hint is None or not isinstance(s, S.Dim)):
        where = cap.last_where
        lessons.breaks.setdefault(cap.top_step, Lesson(cap.top_step, "scalar_constant", "", where))
    else:
        lessons.fixed.add(*(s for s in found if not isinstance(s, S.Dim)))
        lessons.sized.discard(*found)
        lessons.frozen.update((s, Frozen("a constant is needed", cap.last_where, needed.value.hint))
                              for s in found if isinstance(s, S.Dim))
        lessons.all_fixed = len(lessons.fixed) > MANY_NUMBERS


def may_be_size(cap: Capture, source: S.Source) -> bool:
    """Whether a changing number can be a symbolic size, or the negative of one."""
    value = cap.changing.get(source)
    return type(value) is int and value != 0


def number_sources(source: Any) -> list[S.Source]:
    """The Sources that a changing number is computed from."""
    if isinstance(source, S.Host):
        return [s for a in source.args if isinstance(a, S.Source) for s in number_sources(a)]
    return [place for _, place in source.reads] if isinstance(source, S.SizeOf) else [source]


def _exception_name(raised: Raised) -> str:
    shown = object_of(raised.value)
    return type_of(raised.value).__name__ + (f"({str(shown)[:200]})" if shown is not None else "")


def lesson_of(cap: Capture, broke: Break) -> Lesson:
    return Lesson(cap.top_step, broke.kind, broke.detail, cap.last_where)


def attempt(cap: Capture) -> tuple[Result, Lesson | None]:
    """One run of the machine over the frame."""
    root = cap.root
    frame = root.frame = new_frame(root.code, root.fn.__globals__, None, None)
    _arguments(cap, frame)
    try:
        execute(cap, frame)
    except StopAtBreak as stop:
        return breaking(cap, frame), stop.lesson
    assert frame.result is not None
    return returning(cap, frame.result, root.code), None


def _arguments(cap: Capture, frame: Frame) -> None:
    code, fn = cap.root.code, cap.root.fn
    for i, (name, obj) in enumerate(zip(code.co_varnames, cap.root.args)):
        if is_resume(code) and name in code.co_cellvars and isinstance(obj, CellType):  # see resume.late_cells
            cap.guards.add("is_type", S.Local(i, name), CellType)
            frame.cells[name] = wrap(cap, obj, S.Local(i, name))  # type: ignore[assignment]
        else:
            frame.locals[name] = Lazy(obj, S.Local(i, name))  # type: ignore[assignment]
    if code.co_argcount:
        frame.first_local = code.co_varnames[0]
    for i, (name, cell) in enumerate(zip(code.co_freevars, fn.__closure__ or ())):
        try:
            content: Any = Lazy(cell.cell_contents, S.Closure(i, name))
        except ValueError:
            cap.guards.add("empty", S.ClosureCell(i, name))
            content = None
        value = CellV(content, real=cell, source=S.ClosureCell(i, name))
        cap.objects[id(cell)] = value
        frame.cells[name] = value


def finish(cap: Capture, result: Result, stopped: Lesson | None, compile_graph: Compile, lessons: Lessons,
           key: Any) -> Outcome:
    """Compiles the Graph and packs everything into an Entry."""
    for table, found in cap.relied.values():
        kind, name = ("type_unchanged", table.__qualname__) if isinstance(table, type) else (
            "names_unchanged", table.get("__name__", "globals"))
        cap.guards.add(kind, S.Root(table, name), tuple(found), tuple(found.values()))
    _check_no_leak(cap, result, lessons)
    places = {g.payload[3] for g in cap.guards.guards if g.kind == "array"}
    program = compile_graph(result.graph, places) if result.graph is not None else None
    for relation in cap.scope.relations:  # those that compiling asked for are among them
        cap.guards.add("relation", None, relation)
    writer = StepWriter()
    writer.emit(None, "jax_config", jax_config_token(2 * cap.root.traced))
    for guard in cap.guards.guards:
        writer.guard(guard)
    info = Info(result.graph, str(cap.guards), (), stopped, _shapes(cap), cap.captured_ops,
                {repr(s): v for s, v in cap.scalars.items()},
                cap.root.traced, resumes=living(result.resumes), steps=cap.steps)
    info.program = program
    if result.code is not None:
        if result.slot is not None:
            result.slot.program = program
        entry = Entry(GuardProgram(writer.steps), fn_code=result.code, key=key, info=info,
                      returns_tail=returns_tail(cap.root.code), may_restart=may_restart(cap, program))
    else:
        value, outputs = result.template
        template = template_of(cap, value, dict(outputs), writer.register)
        inputs = tuple(writer.register(s) for s in result.inputs)
        entry = Entry(GuardProgram(writer.steps), program=program or _nothing, inputs=inputs, template=template,
                      key=key, info=info)
    info.origin = writer.texts()
    info.arguments = tuple(argument_of(origin) for origin in writer.origin)
    info.contents = tuple(content_of(origin) for origin in writer.origin)
    return Outcome(entry=entry, info=info, lessons=lessons)


def may_restart(cap: Capture, program: Any) -> bool:
    """Whether a call of the entry may start again as plain Python (see `RunPlainly`)."""
    return bool(cap.checks) or cap.root.traced or getattr(program, "may_restart", False)


def argument_of(origin: Guard | S.Source | None) -> S.Local | None:
    """The argument into whose content a guard looks; None where it asks for the sizes of arrays, which may become
    symbolic, or whether an iterator has come to its end, as each one does."""
    return S.passed(origin.source) if isinstance(origin, Guard) and origin.kind not in OF_SIZES else None


OF_SIZES = ("array", "tracer", "ndarray", "symbol", "relation", "ended")


def _check_no_leak(cap: Capture, result: Result, lessons: Lessons) -> None:
    """Whatever the entry keeps, it keeps no class of the capture's own: such a class is made by Python. No table
    that exists has one as a key, now or later."""
    kept = [g for g in cap.guards.guards if not (g.kind == "missing_key" and is_made(cap, g.payload[0]))]
    cap.guards.guards[:] = kept
    found = leak(cap, (result.code, result.graph, result.inputs, cap.guards.guards))
    if found is not None:
        detail = f"class {found.obj.__qualname__}, which something that Python does not make anew refers to"
        lessons.breaks.setdefault(found.step, Lesson(found.step, "call", detail, cap.last_where))
        raise Restart


def _nothing() -> tuple[()]:
    """The program of a frame that computes nothing."""
    return ()


def _shapes(cap: Capture) -> dict[tuple[str, int], int]:
    """(Source, axis) → size, of every array input: a later size that differs becomes symbolic."""
    found: dict[tuple[str, int], int] = {}
    for guard in cap.guards.guards:
        if guard.kind in ("array", "tracer", "ndarray") and guard.source is not None:
            shape = cap.real_shapes.get(guard.source, guard.payload[0])
            found.update({(repr(guard.source), axis): n for axis, n in enumerate(shape)})
    return found


