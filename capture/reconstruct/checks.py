"""Conditions that a Graph computes and Python trusts: what replacement code does when one does not hold.

See `control_flow.raising`, which says which conditions those are. Nothing of a frame has happened yet when its Graph
has run, so the frame can start again as plain Python: `RunPlainly` says so to the frame hook (`_native/evalframe.c`).

    check = check_at(code, 7, 12)           # the condition at its instruction 7, line 12
    Checks((check,))(jnp.array(True))       # nothing
    Checks((check,))(jnp.array(False))      # raises RunPlainly; check.failures == 1
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import jax
import numpy as np

from dynacomp.capture._native import RunPlainly
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.inside_tracers import inmost

PATIENCE = 3  # failures after which a check must have held WORTH times for each
WORTH = 16


FAILED: list[Callable[[Check], None]] = []  # the one function that is told of each check that has failed


class Check:
    """One condition of the program: a jump of one code object. trusted: guards ask for it (`S.Attr(...)`). stopped:
    what kept the other side out of the Graph, None where that side raises. reason, text: what is said of one that has
    failed."""

    reason, text = "raises", "the program raises on what a condition comes to"

    def __init__(self, code: CodeType, index: int, line: int) -> None:
        self.code, self.index = weakref.ref(code), index
        self.file, self.line, self.failures, self.trusted = code.co_filename, line, 0, True
        self.stopped: Break | None = None

    @property
    def where(self) -> str:
        return f"the condition in {self.file}:{self.line}"

    def failed(self, held: int) -> None:
        """Notes that it did not hold, after it had `held` so many times."""
        self.failures += 1
        self.trusted = self.failures < PATIENCE + held // WORTH


C = TypeVar("C", bound=Check)
_CHECKS = IdentityTable()  # code object → its checks, by instruction and kind


def check_at(code: CodeType, index: int, line: int, cls: type[C] = Check) -> C:  # type: ignore[assignment]
    """The one check of that kind at an instruction."""
    rows: dict[tuple[int, type], C] = _CHECKS.setdefault(code, dict)
    found = rows.get((index, cls))
    if found is None:
        found = rows[index, cls] = cls(code, index, line)
    return found


def forget() -> None:
    """Every check is trusted again."""
    _CHECKS.clear()


class Checks:
    """What replacement code calls with the answers to the checks of its Graph, bool[] or bool[n]."""

    def __init__(self, checks: tuple[Check, ...]) -> None:
        self.checks, self.held = checks, 0

    def __call__(self, answers: Any) -> None:
        answers = inmost(answers)  # a tracer, where JAX differentiates the caller
        if isinstance(answers, jax.core.Tracer):
            raise RunPlainly
        found = np.asarray(answers)
        if found.all():
            self.held += 1
            return
        check = self.checks[int(found.argmin())]  # the first: Python would not have come to the others
        check.failed(self.held)
        for told in FAILED:
            told(check)
        raise RunPlainly
