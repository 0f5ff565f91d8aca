"""Capturing a frame: from a function and its arguments to a Graph, guards, and what runs in place of the frame.

`capture(root, lessons)` is one attempt. It answers with a `Captured`, of which `entries.parts_of` makes a cache entry
once the driver has compiled the Graph; with a `Refusal`, the reason why this frame runs as plain Python; or with None:
`lessons` has grown (where the graph must break, which sizes must be constants), and the next attempt goes further.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import sys
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from types import CellType, CodeType
from typing import Any

from dynacomp.capture import arithmetic, builtins, calls, kinds, numbers, opcodes, reconstruct, wrapping
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break, CompileError, GiveUp, Raised, Restart, Unbuildable
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.builtins.warning_rows import hold_records
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.resume import is_resume, layout_of, original_of
from dynacomp.capture.bytecode.stack_effects import check_rows
from dynacomp.capture.control_flow.merge import select
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.reconstruct.graph_break import breaking
from dynacomp.capture.reconstruct.nameless import nameless
from dynacomp.capture.reconstruct.output import Recipe, returning
from dynacomp.capture.symbolic.guards import Guard, GuardSet
from dynacomp.capture.symbolic.lessons import Frozen, Lesson, Lessons, Policy
from dynacomp.capture.symbolic.machine import HANDLERS, Capture, Frame, StopAtBreak, check_complete, execute, new_frame
from dynacomp.capture.symbolic.operations import check_operations
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete
from dynacomp.capture.values.constant import object_of
from dynacomp.capture.values.objects import CellV
from dynacomp.capture.values.value import Lazy, type_of
from dynacomp.capture.wrapping.alike_classes import leaks
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.class_prototypes import is_made, leak

# Handlers of opcodes, rules for callees, kinds of Values, what wraps and rebuilds them: each module of these rooms
# registers its own.
for _room in (arithmetic, builtins, calls, kinds, numbers, opcodes, reconstruct, wrapping):
    for _module in pkgutil.iter_modules(_room.__path__, _room.__name__ + "."):
        importlib.import_module(_module.name)
check_complete()
check_operations()
check_rows(HANDLERS)
MANY_NUMBERS = 12  # so many that must be constants: all are tried as constants, not one after another
strict_errors = False  # tests set it: a defect in capture or compilation is raised, not worked around


@dataclass(eq=False)
class Root:
    """The frame that is captured: what exists before the symbolic machine starts. traced: JAX transforms a caller, so
    that any array may be a tracer."""

    fn: Any
    code: CodeType
    args: tuple[Any, ...]
    policy: Policy = Policy()
    traced: bool = False
    trace: Any = None  # JAX's weak reference to the trace that runs it
    handled: BaseException | None = field(default_factory=sys.exception)  # what a caller handles
    frame: Frame | None = None


@dataclass(eq=False)
class Captured:
    """What an attempt found: the Graph (None where nothing is computed), its guards, the recipe for what runs in place
    of the frame, and where it breaks. It is used in a `with` block, behind which it holds nothing of the program."""

    graph: Graph | None
    guards: GuardSet
    recipe: Recipe
    stopped: Lesson | None
    cap: Capture

    @property
    def places(self) -> set[Any]:
        """The shardings of the Graph's inputs."""
        return {g.payload[3] for g in self.guards.guards if g.kind == "array"}

    def freeze(self, sizes: Collection[Any], why: str) -> None:
        """Nobody can compile the Graph for unknown `sizes` (all of them, where there are none): they are constants in
        the next attempt."""
        size_values.freeze(self.cap, sizes or map(self.cap.sizes.scope.symbol, self.cap.sizes.dims), why, compiled=True)

    def __enter__(self) -> Captured:
        return self

    def __exit__(self, *error: Any) -> None:
        self.cap.let_go()


@dataclass(frozen=True)
class Refusal:
    """Why a frame runs as plain Python: a row of `breaks.REASONS`, and what exactly."""

    kind: str
    detail: str = ""


def capture(root: Root, lessons: Lessons, key: Any = None) -> Captured | Refusal | None:
    """One attempt at a frame; never raises what the program raises (it is run again, as plain Python). key: of whom
    the entry is to be, the driver's options."""
    cap, found = Capture(lessons, root, key), None
    try:
        found = attempt(cap)
        return found
    except Restart:
        return None
    except Break as broke:
        _cut_off(broke)
        if lessons.doubts_result():
            return None
        lessons.breaks.setdefault(cap.progress.top_step, lesson_of(cap, broke))
        return None
    except NeedsConcrete as needed:
        _cut_off(needed)
        learn_number(cap, needed, lessons)
        return None
    except Unbuildable as alive:
        return unbuildable(cap, alive)
    except Raised as raised:
        _cut_off(raised)
        return Refusal("raises", _exception_name(raised))
    except ours(Exception) as error:
        return refusal(error)
    finally:
        if found is None:
            cap.let_go()


def _cut_off(error: BaseException | None) -> None:
    """Lets go of the frames that an exception of ours went through, and those before it: they hold it, a cycle with the
    program's objects in it, which have to die at their time. (Behind them may be one that the program handles.)"""
    while error is not None and module_name(type(error)).partition(".")[0] == "dynacomp":
        error.__traceback__, error.__context__, error = None, None, error.__context__


def refusal(error: BaseException) -> Refusal:
    """What capturing or compiling a frame has ended with, as a reason; a defect of ours, too: the program must run
    all the same."""
    if isinstance(error, GiveUp):
        return Refusal(error.kind, error.detail)
    if isinstance(error, RecursionError):
        return Refusal("depth", "Python's recursion limit")
    if isinstance(error, CompileError) or strict_errors:
        raise error
    return Refusal("internal", f"{type(error).__name__}: {error}")


def unbuildable(cap: Capture, alive: Unbuildable) -> Refusal | None:
    """No bytecode makes this object: the break is where it is made, so that Python makes it."""
    step = bisect_right(cap.progress.births, alive.value.serial) - 1
    detail = alive.detail or f"a {type(alive.value).__name__.removesuffix('V').lower()}"
    if step < 0 or step in cap.lessons.breaks:
        return Refusal("live", detail)
    cap.lessons.breaks[step] = Lesson(step, "live", detail, ())
    return None


def learn_number(cap: Capture, needed: NeedsConcrete, lessons: Lessons) -> None:
    """A changing number is needed as a constant: fixed while it is seen to change little, then a break; a break at once
    where it is made of the content of arrays."""
    places = opened_for(cap, needed.value.source)
    if places:
        lessons.shut.update(places)
        return
    assert needed.value.source is not None  # or it were a constant
    truths = dynamic_scalars.truths_of(needed.value.source)
    if truths and not truths <= lessons.decided:
        lessons.decided |= truths
        return
    found = needed.value.source.numbers()
    sized, counted = size_values.may_become(cap, needed.value), size_values.may_count(cap, needed.value)
    if sized:
        lessons.sized.add(*sized)
    elif counted:
        lessons.counts.update(dict.fromkeys(counted, True))
    elif dynamic_scalars.pins(cap, needed.value):
        return
    elif _is_pythons(cap, needed, found):
        where = cap.progress.last_where
        lessons.breaks.setdefault(cap.progress.top_step, Lesson(cap.progress.top_step, "scalar_constant", "", where))
    else:
        lessons.fixed.add(*(s for s in found if not isinstance(s, S.Dim)))
        lessons.sized.discard(*found)
        lessons.frozen.update((s, Frozen("a constant is needed", cap.progress.last_where, needed.value.hint))
                              for s in found if isinstance(s, S.Dim))
        lessons.all_fixed = len(lessons.fixed) > MANY_NUMBERS


def _is_pythons(cap: Capture, needed: NeedsConcrete, found: Collection[S.Source]) -> bool:
    """Whether a number made of those `found` is no constant of any entry: what needs it is left to Python."""
    return dynamic_scalars.pinned_often(cap, needed.value.source) or any(
        dynamic_scalars.is_of_array(cap, s) or not needed.hosted and cap.root.policy.changes_often(s) for s in found
        if needed.value.hint is None or not isinstance(s, S.Dim)) or all(
            s in cap.lessons.frozen if isinstance(s, S.Dim) else s in cap.lessons.fixed for s in found)


def opened_for(cap: Capture, source: Any) -> set[Any]:
    """The places of the conditions between whose sides Python chooses this number, or one that it is computed from."""
    if not isinstance(source, S.Host) or not cap.numbers.opened:
        return set()
    chosen = cap.numbers.opened.get(source.args[0], set()) if source.fn is select else set()
    return chosen.union(*(opened_for(cap, a) for a in source.args))


def _exception_name(raised: Raised) -> str:
    shown = object_of(raised.value)
    return type_of(raised.value).__name__ + (f"({str(shown)[:200]})" if shown is not None else "")


def lesson_of(cap: Capture, broke: Break) -> Lesson:
    if broke.kind != "raises":
        return Lesson(cap.progress.top_step, broke.kind, broke.detail, cap.progress.last_where)
    guards, relations = cap.progress.top_known
    found = (*cap.guards.guards[guards:],
             *(Guard("relation", None, (r,)) for r in list(cap.sizes.scope.relations)[relations:]))
    sizes = tuple((name, place, cap.sizes.scope.values[name]) for name, place in cap.sizes.dims.items())
    return Lesson(cap.progress.top_step, broke.kind, broke.detail, cap.progress.last_where, found, sizes)


def hold(cap: Capture, lesson: Lesson) -> None:
    """Guards what a break rests on: where Python is to raise an exception, calls with other sizes, which raise none,
    shall not find this entry before their own."""
    for name, place, value in lesson.sizes:
        if name not in cap.sizes.dims:
            cap.sizes.dims[name] = place
            cap.sizes.scope.symbol(name, value)
    for guard in lesson.because:
        cap.guards.add(guard.kind, guard.source, *guard.payload)


def attempt(cap: Capture) -> Captured:
    """One run of the machine over the frame."""
    recipe, stopped = run(cap)
    hold_records(cap)
    for table, found in cap.known.relied.values():
        kind, name = ("type_unchanged", table.__qualname__) if isinstance(table, type) else (
            "names_unchanged", table.get("__name__", "globals"))
        cap.guards.add(kind, S.Root(table, name), tuple(found), tuple(found.values()))
    if cap.known.settled:
        cap.guards.add("functions_unchanged", None, tuple(cap.known.settled.values()))
    recipe = _without_made(cap, recipe)
    return Captured(recipe.graph, cap.guards, recipe, stopped, cap)


def run(cap: Capture) -> tuple[Recipe, Lesson | None]:
    """What runs in place of the frame, up to its end or its first graph break."""
    root = cap.root
    frame = root.frame = new_frame(root.code, root.fn.__globals__, None, None)
    _arguments(cap, frame)
    try:
        execute(cap, frame)
    except StopAtBreak as stop:
        hold(cap, stop.lesson)
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
            if not fills_first(code, name):
                cap.guards.add("empty", S.ClosureCell(i, name))
            content = None
        value = CellV(content, real=cell, source=S.ClosureCell(i, name))
        cap.known.objects[id(cell)] = value
        frame.cells[name] = value


def fills_first(code: CodeType, name: str) -> bool:
    """Whether a resume function begins with stores, one of them into this cell: the variable of a loop that a function
    in its body sees, which is empty in the first round only."""
    layout = layout_of(code)
    rest = decode(original_of(code)).instrs[layout.target:] if layout is not None else ()
    stores = itertools.takewhile(lambda i: i.name in ("STORE_DEREF", "STORE_FAST"), rest)
    return any(i.name == "STORE_DEREF" and i.argval == name for i in stores)


def _without_made(cap: Capture, recipe: Recipe) -> Recipe:
    """Whatever the entry keeps, it keeps no class of the capture's own: such a class is made by Python. No table
    that exists has one as a key, now or later."""
    if recipe.graph is not None and (cap.known.anew_classes or leak(cap, (recipe.graph,)) is not None):
        gone = {*cap.known.anew_classes}
        recipe = replace(recipe, graph=nameless(recipe.graph, lambda cls: cls in gone or is_made(cap, cls)))
    kept = [g for g in cap.guards.guards if not (g.kind == "missing_key" and is_made(cap, g.payload[0]))]
    cap.guards.guards[:] = kept
    found = leak(cap, (recipe.code, recipe.graph, recipe.inputs, cap.guards.guards))
    if found is not None:
        detail = f"class {found.obj.__qualname__}, which something that Python does not make anew refers to"
        cap.lessons.breaks.setdefault(found.step, Lesson(found.step, "call", detail, cap.progress.last_where))
        raise Restart
    if leaks(cap, (recipe.code, recipe.template, recipe.graph, recipe.inputs, cap.guards.guards)):
        cap.lessons.fixed.add(*(cap.known.anew[id(cls)] for cls in cap.known.anew_classes))
        raise Restart
    return recipe
