"""Cache entries: what the C side checks and runs, made of what was captured and of the compiled Graph.

    with capture(root, lessons) as captured:
        entry = parts_of(captured).entry(key, program)

Guards become steps of a `GuardProgram`, which share registers; `Info` says, for `explain`, notices and the next
capture, what the entry is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dynacomp.capture._native import Entry, GuardProgram, jax_config_token
from dynacomp.capture.base.classes import full_name
from dynacomp.capture.base.hashes import HASHED
from dynacomp.capture.base.literals import is_single
from dynacomp.capture.bytecode.resume import living, returns_tail
from dynacomp.capture.frame import Captured
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.reconstruct.output import registered
from dynacomp.capture.symbolic.guards import Guard, StepWriter
from dynacomp.capture.symbolic.lessons import Lesson
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.wrapping.changing_contents import content_of


@dataclass(eq=False)
class Info:
    """What is known of an entry, for `explain` and notices."""

    graph: Graph | None  # or its text, see `portable`
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
    sized: tuple[S.Local | None, ...] = ()  # by guard: the argument of which it asks what sizes an array in it has
    contents: tuple[str, ...] = ()  # by guard: the container whose content it asks for
    resumes: Callable[[], Iterable[CodeType]] = tuple  # where the frame goes on after its graph break
    steps: int = 0  # instructions that the capture has run
    conditional: tuple[bool, ...] = ()  # by guard: whether it asks what a condition on changing numbers comes to
    classes: tuple[str, ...] = ()  # by guard: the name of the class of a call's that it asks for
    owned: tuple[type, ...] = ()  # classes that the capture has made, of which its guards speak
    counted: tuple[str, ...] = ()  # the places of numbers that the call changes there
    numbers: dict[str, int] = field(default_factory=dict)  # ints that change from call to call, and what they were
    identities: tuple[str, ...] = ()  # the places of objects that must be these very ones
    hashes: tuple[bool, ...] = (False, False)  # whether it may rest on hashes of texts, or by address


@dataclass(frozen=True, eq=False)
class Parts:
    """What an entry is made of: the steps of its guards, what runs (arguments of `Entry`), the slot of replacement code
    that its program goes to, what is known of it, which classes are those of abstract bases. Behind the capture's
    `with` block they serve no one."""

    steps: list[tuple[Any, ...]]
    runs: dict[str, Any]
    slot: Any
    info: Info
    abstract: tuple[tuple[type, type, bool], ...] = ()

    def entry(self, key: Any, program: Any) -> Entry:
        """The entry that runs `program`, the compiled Graph (None where there is no Graph)."""
        runs = self.runs
        if self.slot is not None:
            self.slot.program = program
        if "template" in runs:
            runs = {**runs, "program": program or _nothing}
        elif getattr(program, "may_restart", False):  # a call of it may start again as plain Python, see `RunPlainly`
            runs = {**runs, "may_restart": True}
        self.info.program = program
        kernels = getattr(getattr(program, "inner", program), "kernels", ())
        most = max(self.info.operations, len(kernels))  # what a library's net computes is one node of the Graph
        return Entry(GuardProgram(self.steps), key=key, info=self.info, operations=most, **runs)


def parts_of(captured: Captured) -> Parts:
    """What the entry of a capture is made of, whatever its Graph is compiled to."""
    cap, recipe, writer = captured.cap, captured.recipe, StepWriter()
    for relation in cap.sizes.scope.relations:  # those that compiling asked for are among them
        captured.guards.add("relation", None, relation)
    writer.emit(None, "jax_config", jax_config_token(2 * cap.root.traced))
    for guard in captured.guards.guards:
        writer.guard(guard)
    if recipe.code is not None:
        runs: dict[str, Any] = {"fn_code": recipe.code, "returns_tail": returns_tail(cap.root.code),
                                "may_restart": bool(cap.graph.checks) or cap.root.traced}
        if recipe.takes:
            runs["inputs"] = tuple(map(writer.register, recipe.inputs))
    else:
        runs = {"template": registered(recipe.template, writer.register),
                "inputs": tuple(map(writer.register, recipe.inputs))}
    return Parts(writer.steps, runs, recipe.slot, info_of(captured, writer), tuple(cap.known.abstract.values()))


def info_of(captured: Captured, writer: StepWriter) -> Info:
    """What is known of the entry."""
    cap = captured.cap
    return Info(captured.graph, str(captured.guards), writer.texts(), captured.stopped, _shapes(cap),
                cap.progress.captured_ops, numbers_of(cap), cap.root.traced,
                resumes=living(captured.recipe.resumes), steps=cap.progress.steps, **by_guard(writer.origin),
                owned=tuple(cap.known.folded.values()), counted=tuple(cap.lessons.counted),
                numbers={repr(place): n for place, n in cap.numbers.changing.items() if type(n) is int},
                identities=tuple(repr(g.source) for g in captured.guards.guards
                                 if g.kind == "is" and not lasts(g.payload[0])),
                hashes=tuple(now > before for now, before in zip(HASHED, cap.progress.hashes)))


def by_guard(origin: Sequence[Guard | S.Source | None]) -> dict[str, Any]:
    """What an Info says of each of its guards."""
    rows: dict[str, Callable[[Guard | S.Source | None], Any]] = {
        "arguments": argument_of, "sized": array_of, "contents": content_of, "conditional": is_condition,
        "classes": class_of_call}
    return {name: tuple(map(row, origin)) for name, row in rows.items()}


def lasts(obj: Any) -> bool:
    """Whether each process has one such object: no call makes another."""
    return is_single(obj) or issubclass(type(obj), (enum.Enum, type))


def numbers_of(cap: Capture) -> dict[str, Any]:
    """The numbers by their places' names. Where places that differ have one name, which several objects of a class do
    that belong to no argument, it says of none that it changes from call to call."""
    found: dict[str, Any] = {}
    several = set()
    for source, value in cap.numbers.scalars.items():
        known = found.setdefault(repr(source), value)
        if known is not value and known != value:
            several.add(repr(source))
    return {name: value for name, value in found.items() if name not in several}


def argument_of(origin: Guard | S.Source | None) -> S.Local | None:
    """The argument into whose content a guard looks; None where it asks for the sizes of arrays, which may become
    symbolic, or whether an iterator has come to its end, as each one does."""
    return S.passed(origin.source) if isinstance(origin, Guard) and origin.kind not in OF_SIZES else None


def array_of(origin: Guard | S.Source | None) -> S.Local | None:
    """The argument of which a guard asks for an array's sizes."""
    return S.passed(origin.source) if isinstance(origin, Guard) and origin.kind in OF_ARRAYS else None


def is_condition(origin: Guard | S.Source | None) -> bool:
    """Whether a guard asks what a condition on numbers or sizes that change comes to."""
    return isinstance(origin, Guard) and (origin.kind == "relation" or origin.kind == "eq" and isinstance(
        origin.source, S.Host))


def class_of_call(origin: Guard | S.Source | None) -> str:
    """The name of the class that a guard asks for, one that a call of a function has made; "" where there is none."""
    if not isinstance(origin, Guard) or origin.kind not in ("is", "is_type"):
        return ""
    cls = origin.payload[0]
    name = full_name(cls) if issubclass(type(cls), type) else ""
    return name if "<locals>" in name else ""


OF_ARRAYS = ("array", "tracer", "ndarray")
OF_SIZES = (*OF_ARRAYS, "symbol", "relation", "ended")


def _nothing() -> tuple[()]:
    """The program of a frame that computes nothing."""
    return ()


def _shapes(cap: Capture) -> dict[tuple[str, int], int]:
    """(Source, axis) → size, of every array input: a later size that differs becomes symbolic."""
    found: dict[tuple[str, int], int] = {}
    for guard in cap.guards.guards:
        if guard.kind in ("array", "tracer", "ndarray") and guard.source is not None:
            shape = cap.sizes.real_shapes.get(guard.source, guard.payload[0])
            found.update({(repr(guard.source), axis): n for axis, n in enumerate(shape)})
    return found


