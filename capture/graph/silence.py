"""Warnings that JAX gives while ours has it trace, and that nobody is to see: plain Python gives none there, or has
given its own already.

    with saying_nothing(): ...          # none of this thread's
    with saying_nothing(OF_SIZES): ...  # none of those that only a size that JAX does not know brings about
    with nothing_hidden(): ...          # the filters are the program's own, for who reads them meanwhile

Those of a library, which plain Python gives in each call, are noted, for compiled code to give them:

    with noting(said): ...              # this thread's `warnings.warn` adds a `Said` to the list `said`
    with giving(): ...                  # it gives them, for what the program runs meanwhile
    pass_on(said)                       # who is noting around it, or Python, has these
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

# Where JAX makes an array of a size, of the dtype that an index of NumPy has (`x[np.array([0, -1])]`).
OF_SIZES = re.compile(r"jax\._src\.numpy\.indexing$")


@contextlib.contextmanager
def saying_nothing(places: re.Pattern[str] | None = None) -> Iterator[None]:
    """Within the block no warning of this thread is shown that is said of a module so named; of any, if None.
    `warnings.catch_warnings` would be every thread's, and would make others be shown a second time."""
    mine = _OfThread(threading.get_ident())
    hidden = ("ignore", mine, Warning, places, 0)
    filters: Any = warnings.filters
    filters.insert(0, hidden)
    try:
        yield
    finally:
        mine.thread = None  # where another thread has copied the filters meanwhile
        if hidden in filters:
            filters.remove(hidden)


@contextlib.contextmanager
def nothing_hidden() -> Iterator[list[Any]]:
    """Within the block `warnings.filters` are as the compiled code will find them: what a guard asks of them holds."""
    filters: Any = warnings.filters
    hidden = [item for item in filters if isinstance(item[1], _OfThread) and item[1].thread == threading.get_ident()]
    filters[:] = [item for item in filters if item not in hidden]
    try:
        yield filters
    finally:
        filters[:0] = hidden


@dataclass(eq=False)
class _OfThread:
    """In a warning's filter, in place of a pattern of its text: one thread's warnings match, while it is set."""

    thread: int | None

    def match(self, text: str) -> bool:
        return self.thread == threading.get_ident()


# --- warnings that are noted

WARN: Any = warnings.warn
Place = tuple[str, int, str, dict[str, Any]]  # file, line, module, globals
TRACES = frozenset({"trace_to_jaxpr", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nocache", "_create_pjit_jaxpr"})


@dataclass(frozen=True)
class Said:
    """A warning: its text and class; the place in a library that it is about, or None and how many of the program's
    frames stand between that and the library: 0 where it is about who has called that."""

    text: str
    kind: type
    place: Place | None
    above: int


_TURN = threading.RLock()
_LISTS: list[list[Said]] = []  # of the thread whose turn it is, the innermost last
_KEPT: list[bool] = []  # for each of them whether it gets what JAX traces once for all calls
_STATES: list[tuple[Any, ...]] = []  # for each of them the filters, and what shows warnings, as they were before


@contextlib.contextmanager
def noting(said: list[Said], kept: bool = False) -> Iterator[None]:
    """Within the block `said` gets what Python code of this thread warns of. It is given instead where the program
    has a `warn` of its own, where another thread's is noted, and where JAX traces something once for all calls, unless
    `kept`."""
    if not (warnings.warn in (WARN, _note) and _TURN.acquire(blocking=False)):
        yield
        return
    before, warnings.warn = warnings.warn, _note
    _LISTS.append(said)
    _KEPT.append(kept)
    _STATES.append((warnings.filters, *_shows()))
    try:
        yield
    finally:
        _LISTS.pop()
        _KEPT.pop()
        _STATES.pop()
        warnings.warn = before
        _TURN.release()


@contextlib.contextmanager
def giving() -> Iterator[None]:
    """Within the block `warnings.warn` is Python's own."""
    before = warnings.warn
    if before is _note:
        warnings.warn = WARN
    try:
        yield
    finally:
        warnings.warn = before


def pass_on(said: list[Said]) -> None:
    """Warnings that were noted, to who is noting here; they are given where no one is."""
    if warnings.warn is _note and _TURN._is_owned():  # type: ignore[attr-defined]
        _LISTS[-1].extend(said)
        return
    for one in said:
        file, line, module, _ = one.place or (__file__, 0, __name__, {})
        warnings.warn_explicit(one.text, one.kind, file, line, module)


def _note(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
    """In place of `warnings.warn`, while some are noted. Inside a `catch_warnings` that began meanwhile that says what
    becomes of one: it may be recorded, not shown, or an error."""
    mine = _TURN._is_owned()  # type: ignore[attr-defined]
    if mine and _is_recorded():
        WARN(message, category, max(stacklevel, 1) + 1, source, **more)
        return
    if mine and _is_caught() and not _is_shown(message, category, stacklevel, source, more):
        return
    if mine and not more:
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        found = _place(sys._getframe(1), stacklevel)
        if isinstance(kind, type) and issubclass(kind, Warning) and found is not None:
            if not _is_hidden(found[0]):
                _LISTS[-1].append(Said(str(message), kind, *found))
            return
    if "skip_file_prefixes" in more:
        more["skip_file_prefixes"] = (*more["skip_file_prefixes"], __file__)
    WARN(message, category, max(stacklevel, 1) + 1, source, **more)


def _is_caught() -> bool:
    return warnings.filters is not _STATES[-1][0]


def _is_recorded() -> bool:
    return _shows() != _STATES[-1][1:]


def _shows() -> tuple[Any, ...]:
    return warnings.showwarning, getattr(warnings, "_showwarnmsg_impl", None)


def _is_shown(message: Any, category: Any, level: int, source: Any, more: dict[str, Any]) -> bool:
    """Whether the filters at hand let a warning through, of the function that calls `warnings.warn`."""
    with warnings.catch_warnings(record=True) as shown:
        WARN(message, category, max(level, 1) + 2, source, **more)
    return bool(shown)


def _place(frame: FrameType | None, level: int) -> tuple[Place | None, int] | None:
    """What `warnings.warn`, called in a frame, is about; None where JAX keeps a trace of what it has called."""
    at: FrameType | None = None
    while frame is not None and not _is_ours(frame):
        if not _KEPT[-1] and frame.f_code.co_name in TRACES and _module(frame).startswith("jax."):
            return None
        at, level = frame if level > 0 else at, level - 1
        frame = frame.f_back
    if level > 0 or at is None:
        return None, level - 1
    return (at.f_code.co_filename, at.f_lineno, _module(at) or "<string>", at.f_globals), 0


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "")


def _is_ours(frame: FrameType) -> bool:
    return _module(frame).startswith("dynacomp.capture.")


def _is_hidden(place: Place | None) -> bool:
    """Whether one of `saying_nothing` hides it."""
    mine = [item for item in warnings.filters if isinstance(item[1], _OfThread) and item[1].match("")]
    return any(item[3] is None or place and item[3].match(place[2]) for item in mine)
