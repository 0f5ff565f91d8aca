"""Exceptions that the program's signal handlers raise while ours runs.

Python calls a signal handler between any two instructions of the main thread, ours included: a timeout that an alarm
raises around a first call arrives in the middle of a capture. It is the program's, whatever its class, and no
`except` of ours may take it for its own: a broad one catches `ours(...)`, which is nothing while such an exception
is at hand. `tests/test_house.py` holds that.

    try:
        ...
    except ours(OSError) as error:
        ...

Whose an exception is, its traceback tells: Python calls a handler with the signal's number and the frame that it
interrupts, as nothing of ours calls anything, and what `signal.getsignal` answers is known by its code.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from _signal import getsignal  # without the search among enums: this is asked often
from collections.abc import Iterator
from types import CodeType, FrameType, MethodType
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


def ours(*kinds: type[E]) -> tuple[type[E], ...]:
    """`kinds`, for an `except` clause; none of them where a signal handler of the program raised what is at hand."""
    error = sys.exception()
    return () if isinstance(error, kinds) and by_handler(error) else kinds


@contextlib.contextmanager
def suppressing(*kinds: type[BaseException]) -> Iterator[None]:
    """`contextlib.suppress` for what `ours(...)` would catch."""
    try:
        yield
    except ours(*kinds):
        return


def interrupting(error: BaseException, handled: BaseException | None) -> BaseException:
    """`error`, or the exception of a signal handler in whose place it came: clearing up (the standard library's, say)
    has failed with it. handled: what was being handled when all this began."""
    found: BaseException | None = error
    while found is not None and found is not handled:
        if by_handler(found):
            return found
        found = found.__context__
    return error


@contextlib.contextmanager
def surfacing() -> Iterator[None]:
    """Raises at the end of the block what a handler raised inside it where Python passes no exception on: while
    garbage is collected (JAX has a callback there, so that this is when a signal is heard of) or in a finalizer."""
    if threading.current_thread() is not threading.main_thread():  # which runs the handlers
        yield
        return
    lost: list[BaseException] = []
    before = sys.unraisablehook

    def hook(found: Any) -> None:
        if by_handler(found.exc_value):
            lost.append(found.exc_value)
        else:
            before(found)

    try:
        sys.unraisablehook = hook
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = before
    if lost:
        raise lost[0]


def by_handler(error: BaseException | None) -> bool:
    """Whether a signal handler of the program raised the exception, or what it says is its cause."""
    while error is not None:
        frames = list(_frames(error))
        if frames and not handlers().isdisjoint(f.f_code for f in frames) or any(map(_handles_signal, frames)):
            return True
        error = error.__cause__
    return False


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames that the exception went through, from the one that looks at it, or let it go, inwards."""
    entry = error.__traceback__
    while entry is not None:
        yield entry.tb_frame
        entry = entry.tb_next


def handlers() -> set[CodeType]:
    """The code of the Python functions that handle a signal now."""
    return {code for s in _SIGNALS if type(found := getsignal(s)) is not int and (code := _code_of(found)) is not None}


def _code_of(handler: Any) -> CodeType | None:
    """The code that a call of this object runs, where that is Python's."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if callable(handler) and not isinstance(handler, (type(_code_of), MethodType)):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)


def _handles_signal(frame: FrameType) -> bool:
    """Whether the frame was called as handlers are: one that is registered no longer, or was called by another."""
    code = frame.f_code
    plain = code.co_argcount
    if plain < 2 and not code.co_flags & VARARGS or str(frame.f_globals.get("__name__")).startswith(OURS):
        return False  # `f_locals` stays with the frame: the exception that one of ours handles would hold itself
    names, known = code.co_varnames, frame.f_locals
    args = [known.get(n) for n in names[:plain]]
    if code.co_flags & VARARGS:
        rest = known.get(names[plain + code.co_kwonlyargcount])
        args.extend(rest if type(rest) is tuple else ())
    return any(isinstance(place, FrameType) and type(number) in (int, signal.Signals) and number in _SIGNALS
               for number, place in zip(args, args[1:]))


OURS = __name__.partition(".")[0] + "."
VARARGS = 0x04  # a bit of co_flags, as in `inspect`
_SIGNALS = frozenset(map(int, signal.valid_signals()))
