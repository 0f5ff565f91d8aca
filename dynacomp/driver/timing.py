"""Never slower than Python for long: calls of a compiled function are timed, compiled and plain in turn, where most of
their time may be Python's own, and go back to plain Python where that is faster.

A call that runs many operations in its graphs for the time that it takes is faster than Python's for certain, and a
long one is no matter of overhead: neither is ever run plainly to find out. What is left some times over is timed once
plainly, and if that was not much slower, `PAIRS` times in turn. The verdict holds for some calls, then is looked at
again, ever more rarely. Only outermost calls under default options are timed: who asks for a backend, for one graph or
for the same bits in each call insists, and so does `options={"measure": False}`.

    >>> slower([30, 28, 31], [20, 19, 45]), slower([20, 22, 21], [20, 19, 45])
    (True, False)
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from types import CodeType
from typing import Any

import jax
from jax._src.core import trace_ctx

from dynacomp import callers, counters, notices
from dynacomp.breaks import REASONS
from dynacomp.capture import _native
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.options import Options
from dynacomp.stance import current_stance

FIRST = 48  # the call of a code object that is timed first
FIRST_LOOK, PAIRS = 3, 5  # compiled calls before the first plain one, which may cost much; plain ones
OPERATION = 60_000  # nanoseconds that JAX takes for one operation run eagerly, most often more, as derivatives do
FEW, OF_FEW = 32, 10_000  # so few may take as little each, and are soon run and compiled once plainly
LONG = 50_000_000  # nanoseconds of a call in which Python's share is no matter
NOT_MUCH, SLOWER = 1.5, 1.1  # a plain call that takes so much longer needs no second look; the ratio for a verdict
AGAIN, SELDOM, RESTING = 16, 4096, 256  # calls until the next look: times so many each time, at most; after a verdict


class Timing:
    """What is known of one code object. compiled, plain: nanoseconds of calls; next: calls until the next look."""

    def __init__(self) -> None:
        self.compiled: list[int] = []
        self.plain: list[int] = []
        self.next = FIRST


_TIMINGS = IdentityTable()  # code objects compare by value


def slower(compiled: list[int], plain: list[int]) -> bool:
    """Whether compiled calls are slower than plain ones, beyond noise."""
    return statistics.median(compiled) > SLOWER * statistics.median(plain)


def timer(code: CodeType, key: Any) -> tuple[Callable[[Any, int, int], None], bool] | None:
    """Whether and how a call of this code is timed, as `_native.set_timer` asks."""
    if not is_to_be_timed(code, key) or not trace_ctx.is_top_level():
        _native.time_later(code, SELDOM, 0)
        return None
    timing: Timing = _TIMINGS.setdefault(code, Timing)
    captured: Any = counters.stats()["frames_captured"]
    plain = len(timing.plain) <= len(timing.compiled) - FIRST_LOOK

    def tell(result: Any, start: int, operations: int) -> None:
        wait_for(result)
        took = since(start)
        if counters.stats()["frames_captured"] != captured:
            return look_again(code, timing)  # it has not settled
        (timing.plain if plain else timing.compiled).append(took)
        consider(code, timing, operations)

    return tell, plain


def since(start: int) -> int:
    """How long ago that was."""
    return time.monotonic_ns() - start


def is_to_be_timed(code: CodeType, key: Any) -> bool:
    """Whether plain Python may run what this code compiles to, under these options."""
    return (isinstance(key, Options) and key.measure and key.backend == "auto" and key.numerics == "default"
            and not (key.fullgraph or key.capture_idle or key.passes) and current_stance() == "default"
            and not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))


def wait_for(result: Any) -> None:
    """Until the arrays in it are there, as far as built-in containers hold them: JAX computes behind the call."""
    if isinstance(result, jax.Array):
        if not result.is_deleted():  # which waiting for it would raise; the program may give it back nevertheless
            result.block_until_ready()
    elif type(result) in (list, tuple, dict):
        for item in result.values() if isinstance(result, dict) else result:
            wait_for(item)


def consider(code: CodeType, timing: Timing, operations: int) -> None:
    """What follows from what was timed so far, after a call that ran so many operations in its graphs. Other threads
    may have come to a verdict meanwhile, and begun anew."""
    compiled, taken = [*timing.compiled], [*timing.plain]
    if not compiled:
        return look_again(code, timing)
    least, many = min(compiled), len(taken)
    if not many and is_faster_for_certain(least, operations):
        look_again(code, timing)
    elif many == 1 and taken[0] > NOT_MUCH * least:
        look_again(code, timing)
    elif many < PAIRS:
        _native.time_later(code, 1, 0)
    elif slower(compiled, taken):
        left_to_python(code, timing, statistics.median(compiled) / statistics.median(taken))
    else:
        look_again(code, timing)


def is_faster_for_certain(took: int, operations: int) -> bool:
    """Whether plain Python cannot be faster than a compiled call, or not by a share that matters."""
    return took > LONG or took < operations * (OPERATION if operations > FEW else OF_FEW)


def look_again(code: CodeType, timing: Timing) -> None:
    """Later."""
    timing.next = min(timing.next * AGAIN, SELDOM)
    begin_anew(timing)
    _native.time_later(code, timing.next, 0)


def left_to_python(code: CodeType, timing: Timing, ratio: float) -> None:
    """Plain Python runs the next calls: compiled ones took `ratio` times as long."""
    told = callers.shown(code)
    rest = timing.next = RESTING if timing.next < RESTING else min(timing.next * 4, SELDOM)
    begin_anew(timing)
    _native.time_later(code, 1, rest)
    counters.count("frames_eager", "slower")
    notices.tell("runs eagerly", told.co_filename, told.co_firstlineno,
                 f"{REASONS['slower'].text}: {told.co_qualname} took {ratio:.1f} times as long", id="slower",
                 hint=REASONS["slower"].hint)


def begin_anew(timing: Timing) -> None:
    timing.compiled.clear()
    timing.plain.clear()


def forget() -> None:
    """Begins again."""
    _TIMINGS.clear()
