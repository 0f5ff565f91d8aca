"""How often a compiled function is captured again: calls in which something is captured become rare, and functions
whose parts are captured again and again are left to Python.

A program settles within some calls: what changes between them is found out. One that does not, an interpreter of
programs that are new in each call, say, would be captured for ever, each place for some times. After `FREE` calls with
captures in a compiled function, or in what it calls, the next such call is twice as far away each time; in those
between, Python runs what no entry serves.

A frame with graph breaks has many parts, the resume functions behind them, each with entries of its own. Where a search
or a simulation goes another way in each round, all of them would fill up with entries that serve nobody. What they have
been captured again is therefore counted for all parts of a function together (`Parts`), and how often they served.

Both count captures, whatever they take. What a program's captures may take is bounded, too (`Budget`): what is captured
again, and the parts behind breaks, may cost it some seconds, and from then on half as long as it has run meanwhile.
Past that Python runs what no entry serves, until the program has run for longer.

    >>> rounds = Rounds()
    >>> [call for call in range(1, 100) if rounds.may_capture(call)]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 19, 27, 43, 75]
"""

from __future__ import annotations

import resource
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from dynacomp.capture import _native
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.bytecode.resume import original_of

FREE = 12  # calls with captures that a program may have in a row
QUIET = 64  # so many calls without any, and all begins again
GRACE, SHARE = 3.75, 0.5  # seconds for each entry that a code object may have; of the time that the program runs
AGAIN, A_PART, WORTH = 8, 2, 2  # captures again of a function; for each of its parts; calls that each must serve


class Rounds:
    """The calls of one compiled function in which something was captured. last: the last one; many: how many there
    were; asked: the last one in which something would have been. Calls are known by how many there were in the process
    before."""

    def __init__(self) -> None:
        self.last = self.many = self.asked = 0

    def may_capture(self, call: int) -> bool:
        """Whether something may be captured in this call, too."""
        if call == self.last:
            return True
        quiet, self.asked = call - self.asked, call
        if quiet > QUIET:
            self.many = 0
        if call - self.last < 1 << max(0, self.many - FREE):
            return False
        self.last, self.many = call, self.many + 1
        return True


class Budget:
    """Seconds that captures of one compiled function, and below it, may take. began: when the first was asked for;
    spent: seconds of the CPUs that they took, those apart that were the first of their function."""

    def __init__(self) -> None:
        self.began, self.spent = time.monotonic(), 0.0

    def is_over(self, grace: float) -> bool:
        """Whether no more may be spent now. grace: seconds that any program may spend."""
        if self.spent <= grace:
            return False
        return self.spent > grace + SHARE * (time.monotonic() - self.began - self.spent)

    @contextmanager
    def spending(self, counts: bool) -> Iterator[None]:
        """What runs inside is a capture, which `counts` or not."""
        before = cpu_seconds()
        try:
            yield
        finally:
            self.spent += counts * (cpu_seconds() - before)


def cpu_seconds() -> float:
    """What this process and the compilers that it has waited for have taken: a busy machine does not change it much."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Parts:
    """A function and its resume functions. again: how often one was captured that had been captured before. entered:
    functions and classes of libraries that are alive, by id, of which a capture has found that no call can be a node:
    the next one need not find that out again, an attempt for each."""

    def __init__(self) -> None:
        self.codes: dict[int, weakref.ref[CodeType]] = {}
        self.again = 0
        self.entered: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def has_begun(self) -> bool:
        """Whether a part of the function was captured before."""
        return bool(self.codes)

    def note(self, code: CodeType) -> None:
        known = self.codes.get(id(code))
        if known is not None and known() is code:
            self.again += 1
        else:
            self.codes[id(code)] = weakref.ref(code)

    def is_useless(self) -> bool:
        """Whether captures serve so few calls that there shall be no more. A function in one part has a limit of its
        own."""
        alive = [code for ref in self.codes.values() if (code := ref()) is not None]
        return len(alive) > 1 and self.again >= AGAIN + A_PART * len(alive) and (
            sum(map(_native.hits, alive)) < WORTH * self.again)


def parts_of(code: CodeType) -> Parts:
    """Of the function that `code` is a part of."""
    return _PARTS.setdefault(original_of(code), Parts)  # type: ignore[no-any-return]


_PARTS = IdentityTable()
_ROUNDS = IdentityTable()  # code objects compare by value
_BUDGETS = IdentityTable()


def compiled_above(code: CodeType) -> CodeType:
    """The code of the compiled function that a frame of this code runs in."""
    root: Any = getattr(_native.current(), "__wrapped__", None)
    return getattr(getattr(root, "__func__", root), "__code__", code)


def may_capture(root: CodeType) -> bool:
    """Whether something may be captured in the call of this compiled function that runs."""
    return _ROUNDS.setdefault(root, Rounds).may_capture(_native.counters()["outer"])  # type: ignore[no-any-return]


def budget_of(root: CodeType) -> Budget:
    """Of the compiled function with this code."""
    return _BUDGETS.setdefault(root, Budget)  # type: ignore[no-any-return]


def forget() -> None:
    """Begins again."""
    _BUDGETS.clear()
    _ROUNDS.clear()
    _PARTS.clear()
