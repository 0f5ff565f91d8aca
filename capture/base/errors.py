"""The ways in which symbolic execution leaves its straight path.

    Break       the instruction at hand must run in Python: compile what came before, resume after
    Raised      the program itself raises; handlers in the captured code may catch it
    Restart     capture starts over with something learned (a break inside a callee, a size that
                must be fixed)
    NeverCalled a derivative reaches a rule that nothing had reached before: Restart, and look for rules
    Unbuildable an object that is alive where the captured code ends cannot be rebuilt: capture starts
                over, and Python makes the object
    GiveUp      this frame is not compiled at all, with a reason that the user sees
    CompileError  what the program asked for by name cannot be had, and it insists: the program sees this
"""

from __future__ import annotations

import sys
from typing import Any


class Break(Exception):
    """A graph break: `kind` is a row of `breaks.REASONS`, `detail` says what exactly."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class Raised(Exception):
    """The captured program raised; `value` is the Value of the exception object. `fresh`: no frame
    has seen it yet, so that it still gets its context (False for one that is raised again). `traced`:
    the frame at hand is in its traceback already. `chained`: a real exception of a library's, which keeps what it was
    raised from, and while handling."""

    def __init__(self, value: Any, fresh: bool = True, traced: bool = False, chained: bool = False) -> None:
        error = vars(value).get("value")
        if isinstance(error, Break) or had_no_room(error):  # C code has called what refuses: not the program's
            raise error
        super().__init__(value)
        self.value, self.fresh, self.traced, self.chained = value, fresh, traced, chained


def had_no_room(error: Any) -> bool:
    """Whether Python's recursion limit ended a call that capture made where less than half of the stack was left: its
    own frames may be those that were too many."""
    return isinstance(error, RecursionError) and error.__traceback__ is not None and stack_used() > 0.5


def stack_used() -> float:
    """How much of Python's recursion limit the caller's frames are."""
    depth, frame = 0, sys._getframe().f_back
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth / sys.getrecursionlimit()


class Restart(Exception):
    """Capture must start over; what was learned is in the Capture's `Lessons`."""


class NeverCalled(Exception):
    """JAX calls a function that it had not called when the node that holds it was captured."""


class Unbuildable(Exception):
    """`value` is alive where the captured code ends, and no bytecode makes an object in its state."""

    def __init__(self, value: Any, detail: str = "") -> None:
        super().__init__(value, detail)
        self.value, self.detail = value, detail


class CompileError(RuntimeError):
    """`fullgraph=True`, and a pass or a backend that the program brought fails."""


class GiveUp(Exception):
    """The frame runs as plain Python; `kind` is a row of `breaks.REASONS`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail
