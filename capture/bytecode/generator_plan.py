"""How the generators of one function run: the segments that their drivers share, and driving from outside.

Code that is captured runs generators on the symbolic machine, in its own graph (see generators.py). Where
such a generator must be there for Python, half-consumed, `begin` makes a driver that has not started; `move`
puts any driver that stands still where the compiled code has come to. `plan_at` knows drivers again.

Coroutines and async generators are meant too wherever generators are spoken of.
"""

from __future__ import annotations

import atexit
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import AsyncGeneratorType, CodeType, FunctionType
from typing import Any

from dynacomp.capture._native import (
    mark_skip,
    run_eager,
    set_suspended_delegate,
    set_suspended_local,
    suspended,
    suspended_local,
)
from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.drivers import FIRST, KEY, driver, slots_of
from dynacomp.capture.bytecode.resume import late_cells, reachable
from dynacomp.capture.bytecode.segments import FINISHED, KINDS, MOVED, START, Flat
from dynacomp.capture.bytecode.suspensions import YIELD

TRIAL = 64
# Breaks at which no function of the program is called.
ALONE = ("iterator", "scalar", "scalar_branch", "scalar_constant", "identity", "live", "leaves")


class Plan:
    """What all running generators of one function share.

    wrap: makes of a segment (a function) what is called; this is where capture comes in. left: how many
    segments run until it is decided whether that pays. on_idle: called when it does not."""

    any_made = False

    def __init__(self, code: CodeType, wrap: Callable[[Any], Any], on_idle: Callable[[], None] | None = None) -> None:
        Plan.any_made = True
        self.flat, self.wrap, self.on_idle = Flat(code), wrap, on_idle
        self.original = weakref.ref(code)
        self.left = TRIAL if on_idle is not None else 0
        self.idle = False
        self.events: dict[int, Any] = {}  # by thread: what the driver that is moved now goes on from
        self._begun: CodeType | None = None

    def driver(self) -> CodeType:
        """The code of a driver. That holds this Plan, which must not hold it: code is no garbage for the collector."""
        code = self.original()
        assert code is not None
        made = driver(code, partial(Segments, self))
        _remember(made, self)
        return made

    @property
    def begun(self) -> CodeType:
        """The code of drivers that begin in the middle."""
        if self._begun is None:
            code = self.original()
            assert code is not None
            self._begun = driver(code, partial(_segments, weakref.ref(self)), begun=True)
            mark_skip(self._begun, False, True)
            _remember(self._begun, self)
        return self._begun

    def on_trial(self) -> bool:
        """Counts a segment that is about to run; False once it is decided."""
        if self.left:
            self.left -= 1
            if not self.left:
                self._decide()
        return self.left > 0

    def _decide(self) -> None:
        self.idle = not any(_pays(info) for _, info in reachable(self.flat.codes.values()))
        if self.idle and self.on_idle is not None:
            self.on_idle()


def _pays(info: Any) -> bool:
    """Whether an entry computes something, or breaks for a call, of which something compiled may come."""
    return info.graph is not None or (info.breaks is not None and info.breaks.kind not in ALONE)


class Segments(dict):
    """Segments of one running generator as functions, by key; while on trial, each lookup is a miss."""

    def __init__(self, plan: Plan, globals_: dict[str, Any], closure: tuple) -> None:
        super().__init__()
        self.plan, self.globals, self.closure = plan, globals_, closure
        self.made: dict[int, Any] = {}

    def __missing__(self, key: int) -> Any:
        if key in (START, MOVED) and self.plan.events:
            event = self.plan.events.pop(threading.get_ident(), None)
            if event is not None:
                return _giving([event])
        return run_eager(self._find, (key,))  # the library that makes code must not be captured itself

    def _find(self, key: int) -> Any:
        if self.plan.on_trial():
            if key not in self.made:
                self.made[key] = self._make(key)
            return self.made[key]
        self[key] = segment = self._make(key)
        return segment

    def _make(self, key: int) -> Any:
        plan, made = self.plan, self._plain(key)
        if not plan.idle and (key >= 0 or plan.flat.points[-key].handled):
            return plan.wrap(made)
        mark_skip(made.__code__)  # it only raises, or does nothing that can be compiled
        return made

    def _plain(self, key: int) -> FunctionType:
        code = self.plan.flat.code(key)
        return FunctionType(code, self.globals, code.co_name, None, self.closure)

    def make_ends(self) -> None:
        """Makes those that run when the generator is closed, wherever it stands."""
        self.update((-key, self._plain(-key)) for key in self.plan.flat.points)


@atexit.register
def make_ends() -> None:
    """What is still suspended when the interpreter ends is closed after our modules were taken to pieces."""
    if Plan.any_made:
        for held in [obj for obj in gc.get_objects() if type(obj) is Segments]:
            run_eager(held.make_ends, ())


def _segments(plan: weakref.ref[Plan], globals_: dict[str, Any], closure: tuple, first: list[Any]) -> Segments:
    """Those of a driver that begins in the middle: `first` gives the event that it begins with."""
    held = plan()
    assert held is not None
    made = Segments(held, globals_, closure)
    made[START] = _giving(first)
    return made


def _giving(events: list[Any]) -> Callable[..., Any]:
    """A segment that gives the event in a list, once."""
    def segment(*state: Any) -> Any:
        return events.pop()

    return segment


for _code in (_segments.__code__, *(c for c in _giving.__code__.co_consts if isinstance(c, CodeType))):
    mark_skip(_code, False, True)


# --- plans by code

_OF_DRIVER: dict[int, weakref.ref[Plan]] = {}
_OF_CODE: dict[tuple[int, Any], Plan] = {}
wrapping: list[Callable[[Any], Callable[[Any], Any]]] = []  # from options to a Plan's `wrap`; the driver fills it


def _remember(made: CodeType, plan: Plan) -> None:
    _OF_DRIVER[id(made)] = weakref.ref(plan)
    weakref.finalize(made, _OF_DRIVER.pop, id(made), None).atexit = False


def plan_at(gen: Any) -> tuple[Plan | None, bool]:
    """The Plan of a driver that stands still (None: it is no driver, or it does not), and whether it is still
    to start."""
    found = suspended(gen)
    plan = _OF_DRIVER.get(id(found[0])) if found is not None else None
    return (plan() if plan is not None else None), found is not None and found[1]


def plan_of(code: CodeType, options: Any) -> Plan | None:
    """The Plan for generators that captured code has begun; None where they can have no driver."""
    known = _OF_CODE.get((id(code), options))
    if known is None and wrapping and not late_cells(decode(code)):
        try:
            known = Plan(code, wrapping[0](options))
        except GiveUp:
            return None
        keep(code, options, known)
    return known


def keep(code: CodeType, options: Any, plan: Plan) -> None:
    """Makes `plan` the one for `code`, for as long as that lives."""
    if (id(code), options) not in _OF_CODE:
        weakref.finalize(code, _OF_CODE.pop, (id(code), options), None).atexit = False
    _OF_CODE[id(code), options] = plan


def forget() -> None:
    """Forgets what was made for captured code, not the drivers that run."""
    for key in list(_OF_CODE):
        _OF_CODE.pop(key, None)


# --- moving a driver


class Placeholder:
    """What a driver waits for, for a moment, until it waits for what it should."""

    def __iter__(self) -> Iterator[None]:
        yield None

    __await__ = __iter__


mark_skip(Placeholder.__iter__.__code__, False, True)


def begin(fn: Any, options: Any, cells: tuple[Any, ...]) -> Any:
    """A generator of `fn` that is still to be moved to where it stands; `cells`: its own, and those of `fn`."""
    plan = plan_of(fn.__code__, options)
    assert plan is not None
    made = FunctionType(plan.begun, fn.__globals__, fn.__name__, None, cells)
    made.__qualname__ = fn.__qualname__
    return made([])


def ready(gen: Any, key: int, state: tuple[Any, ...], value: Any) -> None:
    """Tells a driver that has not started what to begin with: it yields `value`, or waits for that."""
    suspended_local(gen, slots_of(suspended(gen)[0])[FIRST]).append((key, value, state))  # type: ignore[index]


def asend(gen: Any, value: Any) -> Any:
    """What sends `value` to an asynchronous generator, once awaited."""
    return gen.asend(value)


def move(gen: Any, key: int, state: tuple[Any, ...], delegate: Any = None) -> None:
    """Puts a driver that stands still where `key` says (FINISHED: at its end), with this state; `delegate`: what
    it waits for there."""
    plan, created = plan_at(gen)
    if plan is None:  # another thread has gone on with it since it was looked at
        raise ValueError("generator already executing")
    kind = key % KINDS if key else YIELD
    if not created:
        set_suspended_local(gen, slots_of(suspended(gen)[0])[KEY], MOVED)  # type: ignore[index]
        if is_waiting(gen):
            set_suspended_delegate(gen, iter(()))
    event = key, None if kind == YIELD else Placeholder(), state
    if created and FIRST in slots_of(suspended(gen)[0]):  # type: ignore[index]
        ready(gen, key, state, event[1])
    else:
        plan.events[threading.get_ident()] = event
    try:
        run_eager(_step, (gen,))
    except (StopIteration, StopAsyncIteration):
        assert key == FINISHED or type(gen) is AsyncGeneratorType
    finally:
        plan.events.pop(threading.get_ident(), None)
    if kind != YIELD:
        set_suspended_delegate(gen, delegate)


def _step(gen: Any) -> None:
    (gen.asend(None) if type(gen) is AsyncGeneratorType else gen).send(None)


def is_waiting(gen: Any) -> bool:
    """Whether it stands in a `yield from` or `await`."""
    return waits_for(gen) is not None


def waits_for(gen: Any) -> Any:
    """What it waits for in a `yield from` or `await`; None where it does not."""
    return next((getattr(gen, name) for name in ("gi_yieldfrom", "cr_await", "ag_await") if hasattr(gen, name)), None)


def is_running(gen: Any) -> bool:
    """Whether it runs now (or runs what it waits for)."""
    return any(getattr(gen, name, False) for name in ("gi_running", "cr_running", "ag_running"))
