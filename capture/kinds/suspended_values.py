"""Generators that stand still, as Values and back: what the driver of one keeps is what a symbolic frame holds.

`wrap_generator` reads a driver that the code was given (see drivers.py) into a symbolic frame that stands where it
stands, its locals and stack found through Sources: captured code goes on with it in its own graph. `Standing` says
the reverse, where a symbolic frame stands: what `generator_plan.move` puts a driver to after the graph.

A generator that is no driver (it began where nothing was captured, or asks for its frame) stays opaque.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, CoroutineType
from typing import Any

from dynacomp.capture._native import suspended, suspended_delegate, suspended_local
from dynacomp.capture.base.errors import Unbuildable
from dynacomp.capture.bytecode.code import Decoded, argument_count, decode
from dynacomp.capture.bytecode.drivers import KEY, STATE, slots_of
from dynacomp.capture.bytecode.generator_plan import is_running, plan_at, plan_of, waits_for
from dynacomp.capture.bytecode.resume import HANDLED, NULL, late_cells
from dynacomp.capture.bytecode.segments import FINISHED, UNBOUND, slots
from dynacomp.capture.bytecode.suspensions import MAYBE, YIELD, Point
from dynacomp.capture.symbolic.generators import delegate, note_pending
from dynacomp.capture.symbolic.machine import Capture, Frame, new_frame
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.frames import NULL as NULL_VALUE
from dynacomp.capture.values.frames import HandlingV, is_null
from dynacomp.capture.values.iterators import GeneratorV
from dynacomp.capture.values.value import Lazy, Value
from dynacomp.capture.wrapping.builder import wrap

GLOBALS = -1  # the slot of the globals, see _native/suspended.c


# --- where a symbolic frame stands


@dataclass(frozen=True)
class Standing:
    """The key of a suspension, the state that its driver keeps there, and what it waits for."""

    key: int
    state: list[Any]
    delegate: Any = None


def standing(cap: Capture, gen: GeneratorV) -> Standing:
    """Where `gen`, which has started, stands; Unbuildable where no driver can."""
    frame = gen.frame
    if gen.done:
        return Standing(FINISHED, [])
    plan = plan_at(gen.real)[0] if gen.real is not None else plan_of(frame.code.code, cap.options)
    inner = delegate(frame)
    key = plan.flat.keys.get(frame.index - (1 if inner is None else 2)) if plan is not None else None
    if plan is None or key is None or gen.running:
        raise Unbuildable(gen, "a half-consumed generator")
    point = plan.flat.points[key]
    state = [frame.locals.get(name, Const(UNBOUND)) for name in point.locals]
    state += [_slot(frame.stack[int(name.removeprefix("$stack"))]) for name in slots(point)]
    return Standing(key, state, inner)


def _slot(v: Value) -> Value:
    return v.error if isinstance(v, HandlingV) else Const(UNBOUND) if is_null(v) else v


# --- a driver as a Value


def wrap_generator(cap: Capture, obj: Any, source: S.Source) -> GeneratorV | None:
    """The Value of a generator that the code was given; None where only Python can go on with it."""
    if suspended(obj) is None and not is_running(obj):
        return _ended(cap, obj, source)
    plan, created = plan_at(obj)
    code = plan.original() if plan is not None else None
    if plan is None or code is None or not code.co_flags & (CO_GENERATOR | CO_COROUTINE) or late_cells(decode(code)):
        return None
    if _is_elsewhere_each_time(cap, obj, source):
        return None
    made = suspended(obj)[0]  # type: ignore[index]
    at = slots_of(made)
    key = None if created else suspended_local(obj, at[KEY])
    if created and made is plan.begun or key is not None and key not in plan.flat.points:
        return None
    cap.guards.add("suspended", source, made, key, at[KEY])
    reader = Reader(cap, obj, source, at)
    frame = reader.frame(code)
    if key is None:
        reader.at_start(frame)
    else:
        reader.at_point(frame, plan.flat.points[key])
    gen = GeneratorV(frame, started=key is not None, real=obj, source=source)
    if gen.started:
        note_pending(cap, gen)
    return gen


CO_GENERATOR, CO_COROUTINE = 0x20, 0x80


def _ended(cap: Capture, obj: Any, source: S.Source) -> GeneratorV:
    cap.guards.add("has_ended", source)
    frame = new_frame(obj.cr_code if isinstance(obj, CoroutineType) else obj.gi_code, {}, None, None)
    frame.result = Const(None)
    return GeneratorV(frame, started=True, done=True, real=obj, source=source)


def _is_elsewhere_each_time(cap: Capture, obj: Any, source: S.Source) -> bool:
    """Whether the generator has been met at too many places: then Python goes on with it, wherever it stands."""
    place = S.Suspended(source, GLOBALS, "place")
    cap.numbers.scalars[place] = tuple(_places(obj))
    return cap.root.policy.changes_often(place)


def _places(gen: Any) -> Iterator[Any]:
    """Where it stands, and where those stand that it waits for, inside each other."""
    while gen is not None:
        plan, created = plan_at(gen)
        yield None if plan is None or created else suspended_local(gen, slots_of(suspended(gen)[0])[KEY])  # type: ignore
        gen = waits_for(gen) if plan is not None and not created else None


@dataclass(frozen=True)
class Reader:
    """Reads the driver `obj`, found at `source`; `at`: the slots of its frame by name."""

    cap: Capture
    obj: Any
    source: S.Source
    at: dict[str, int]

    def frame(self, code: CodeType) -> Frame:
        table = suspended_local(self.obj, GLOBALS)
        place = S.Suspended(self.source, GLOBALS, "f_globals")
        if self.cap.globals_source(table) is None:
            self.cap.guards.add("own_globals", place)
        else:
            self.cap.guards.add("is", place, table)
        frame = new_frame(code, table, self.cap.globals_source(table), None)
        if code.co_argcount:
            frame.first_local = code.co_varnames[0]
        for name in (*code.co_cellvars, *code.co_freevars):
            held = S.Suspended(self.source, self.at[name], f"cell({name})")
            frame.cells[name] = wrap(self.cap, suspended_local(self.obj, self.at[name]), held)  # type: ignore
        return frame

    def at_start(self, frame: Frame) -> None:
        """Before its first instruction; its cells exist already."""
        code = frame.code.code
        for name in code.co_varnames[:argument_count(code)]:
            if name not in frame.cells:
                slot = self.at[name]
                frame.locals[name] = Lazy(suspended_local(self.obj, slot),  # type: ignore[assignment]
                                          S.Suspended(self.source, slot, name))
        frame.index = after_start(frame.code)

    def at_point(self, frame: Frame, point: Point) -> None:
        state = suspended_local(self.obj, self.at[STATE])
        held = S.Suspended(self.source, self.at[STATE], "state")
        items = {name: Lazy(x, S.Item(held, n))
                 for n, (name, x) in enumerate(zip((*point.locals, *slots(point)), state))}
        for name in point.locals:
            if self._is_bound(items[name], name in point.unsure):
                frame.locals[name] = items[name]  # type: ignore[assignment]
        for n, kind in enumerate(point.stack):
            self._push(frame, kind, items.get(f"$stack{n}"))
        frame.index = point.index + 1
        if point.kind != YIELD:
            frame.push(wrap(self.cap, suspended_delegate(self.obj), S.Delegate(self.source)))
            frame.index += 1

    def _is_bound(self, item: Lazy, unsure: bool) -> bool:
        if unsure:
            self.cap.guards.add("is" if item.obj is UNBOUND else "is_not", item.source, UNBOUND)
        return item.obj is not UNBOUND

    def _push(self, frame: Frame, kind: str, item: Lazy | None) -> None:
        if kind == NULL or item is None or not self._is_bound(item, kind == MAYBE):
            frame.push(NULL_VALUE)
            return
        value = wrap(self.cap, item.obj, item.source)
        if kind == HANDLED:
            frame.handling.append(HandlingV(value))
            value = frame.handling[-1]
        frame.push(value)


def after_start(decoded: Decoded) -> int:
    """The instruction at which a generator starts: RETURN_GENERATOR and the POP_TOP after it were the call's."""
    return next(i.index for i in decoded.instrs if i.name == "RETURN_GENERATOR") + 2


OPERATIONS.wrap_generator = wrap_generator
