"""Generators, coroutines and async generators in place of which a driver runs: which functions run their segments.

`capture_suspended` makes the entry of such a function. A generator that computes nothing with arrays
(`sum(n * n for n in numbers)`) is better left alone: for those that nobody asked to compile, the first
TRIAL segments that run decide. When no graph came of them, nor a call that Python had to make, the
function is never captured again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from dynacomp.capture._native import Entry, GuardProgram, mark_skip, run_eager
from dynacomp.capture.drivers import driver
from dynacomp.capture.errors import GiveUp
from dynacomp.capture.frame import Info, Outcome
from dynacomp.capture.resume import looks_at_frame, reachable
from dynacomp.capture.segments import Flat

TRIAL = 64
# Breaks at which no function of the program is called.
ALONE = ("iterator", "scalar", "scalar_branch", "scalar_constant", "identity", "live", "leaves")


class Plan:
    """What all running generators of one function share.

    wrap: makes of a segment (a function) what is called; this is where capture comes in. left: how many
    segments run until it is decided whether that pays. on_idle: called when it does not."""

    def __init__(self, flat: Flat, wrap: Callable[[Any], Any], on_idle: Callable[[], None] | None) -> None:
        self.flat, self.wrap, self.on_idle = flat, wrap, on_idle
        self.left = TRIAL if on_idle is not None else 0
        self.idle = False

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
        return run_eager(self._find, (key,))  # the library that makes code must not be captured itself

    def _find(self, key: int) -> Any:
        if self.plan.on_trial():
            if key not in self.made:
                self.made[key] = self._make(key)
            return self.made[key]
        self[key] = segment = self._make(key)
        return segment

    def _make(self, key: int) -> Any:
        plan = self.plan
        code = plan.flat.code(key)
        made = FunctionType(code, self.globals, code.co_name, None, self.closure)
        if not plan.idle and (key >= 0 or plan.flat.points[-key].handled):
            return plan.wrap(made)
        mark_skip(code)  # it only raises, or does nothing that can be compiled
        return made


def capture_suspended(code: CodeType, wrap: Callable[[Any], Any], key: Any,
                      on_idle: Callable[[], None] | None) -> Outcome:
    """The entry of a function whose calls give a generator, coroutine or async generator: its driver.

    It guards nothing: what a segment needs to hold is guarded when that segment is captured. on_idle:
    what to do when nothing can be compiled; None where the user asked for this very function."""
    if looks_at_frame(code):
        return Outcome(kind="frame", detail="a generator that may ask for its local variables")
    try:
        flat = Flat(code)
    except GiveUp as gave:
        return Outcome(kind=gave.kind, detail=gave.detail)
    made = driver(code, partial(Segments, Plan(flat, wrap, on_idle)))
    info = Info(None, "", (), None, {}, 0, {}, resumes=flat.codes.values)
    return Outcome(entry=Entry(GuardProgram([]), fn_code=made, key=key, info=info), info=info)
