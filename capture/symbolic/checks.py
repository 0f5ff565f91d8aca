"""Conditions that a Graph computes and Python trusts: what replacement code does when one does not hold.

See `control_flow.raising`, which says which conditions those are. Nothing of a frame has happened yet when its Graph
has run, so the frame can start again as plain Python: `RunPlainly` says so to the frame hook (`_native/evalframe.c`).

    check = Check("the condition in train.py:12")
    Checks((check,))(jnp.array(True))       # nothing
    Checks((check,))(jnp.array(False))      # raises RunPlainly; check.failures == 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacomp.capture._native import RunPlainly

PATIENCE = 3  # failures after which a check must have held WORTH times for each
WORTH = 16


class Check:
    """One condition of the program: a jump of one code object. trusted: guards ask for it (`S.Attr(...)`)."""

    def __init__(self, where: str) -> None:
        self.where, self.failures, self.trusted = where, 0, True

    def failed(self, held: int) -> None:
        """Notes that it did not hold, after it had `held` so many times."""
        self.failures += 1
        self.trusted = self.failures < PATIENCE + held // WORTH


class Checks:
    """What replacement code calls with the answers to the checks of its Graph, bool[] or bool[n]."""

    def __init__(self, checks: tuple[Check, ...]) -> None:
        self.checks, self.held = checks, 0

    def __call__(self, answers: Any) -> None:
        found = np.asarray(answers)
        if found.all():
            self.held += 1
            return
        self.checks[int(found.argmin())].failed(self.held)  # the first: Python would not have come to the others
        raise RunPlainly
