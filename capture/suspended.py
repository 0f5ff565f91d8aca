"""Generators, coroutines and async generators in place of which a driver runs: which functions run their segments.

`capture_suspended` makes the entry of such a function. A generator that computes nothing with arrays
(`sum(n * n for n in numbers)`) is better left alone: for those that nobody asked to compile, the first
TRIAL segments that run decide (see generator_plan.py). When no graph came of them, nor a call that Python had to make,
the function is never captured again.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from dynacomp.capture._native import Entry, GuardProgram
from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.bytecode.generator_plan import Plan, keep
from dynacomp.capture.bytecode.resume import looks_at_frame
from dynacomp.capture.entries import Info
from dynacomp.capture.frame import Refusal


def capture_suspended(code: CodeType, wrap: Callable[[Any], Any], key: Any,
                      on_idle: Callable[[], None] | None) -> Entry | Refusal:
    """The entry of a function whose calls give a generator, coroutine or async generator: its driver.

    It guards nothing: what a segment needs to hold is guarded when that segment is captured. on_idle:
    what to do when nothing can be compiled; None where the user asked for this very function."""
    if looks_at_frame(code):
        return Refusal("frame", "a generator that may ask for its local variables")
    try:
        plan = Plan(code, wrap, on_idle)
        made = plan.driver()
    except GiveUp as gave:
        return Refusal(gave.kind, gave.detail)
    keep(code, key, plan)
    info = Info(None, "", (), None, {}, 0, {}, resumes=plan.flat.codes.values)
    return Entry(GuardProgram([]), fn_code=made, key=key, info=info)
