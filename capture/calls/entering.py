"""How a library function is entered that no changing size can pass: see `tracing.failures`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.failures import python_inside
from dynacomp.capture.values.computed import NeedsConcrete
from dynacomp.capture.values.value import Value

MAX_DECISIONS = 6  # conditions on sizes in a function that is entered


def enter(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value],
          run: Callable[..., Value]) -> Value:
    """What `run(cap, fn, args, kwargs)` gives, which enters `fn`. If that can't be done, or if what it does depends on
    sizes by so many conditions that nearly every size would get an entry, the next attempt knows."""
    inside = python_inside(fn)
    decided = len(cap.sizes.scope.relations)
    try:
        found = run(cap, inside, args, kwargs)
        if len(cap.sizes.scope.relations) - decided <= MAX_DECISIONS:
            return found
    except (Break, NeedsConcrete, Raised):
        pass
    cap.lessons.entered[inside] = False
    raise Restart
