"""Frames that compute nothing with arrays: their guards would cost more than compiled code can save, so they run as
plain Python, and what they call is captured by itself.

A capture without a Graph makes no entry. The code is looked at again after ever more calls, for another way through it
may compute something. A frame that goes on after a graph break is left alone once everything behind the break is.
`options={"capture_idle": True}` and `fullgraph=True` capture such frames all the same.

    >>> import dynacomp
    >>> dynacomp.reset()
    >>> dynacomp.jit(lambda words: [w.title() for w in words], options={"capture_idle": False})(["a", "b"])
    ['A', 'B']
    >>> dynacomp.stats()["frames_captured"], dynacomp.stats()["frames_idle"]
    (0, 1)
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

from dynacomp import counters, notices
from dynacomp.capture import _native
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.options import Options

RESTS = (2, 8, 64, 512, 4096)  # calls that run plainly after the first look in vain, the second, ...


class Rest:
    """What is known of one code object. looks: how often it was captured in vain, in a row; before: the codes that
    go on with this one after a graph break."""

    def __init__(self) -> None:
        self.looks = 0
        self.before: weakref.WeakSet[CodeType] = weakref.WeakSet()


_RESTS: dict[int, Rest] = {}  # by id: code objects compare by value


def rest_of(code: CodeType) -> Rest:
    """For as long as the code lives."""
    found = _RESTS.get(id(code))
    if found is None:
        found = _RESTS.setdefault(id(code), Rest())
        weakref.finalize(code, _RESTS.pop, id(code), None).atexit = False
    return found


def is_left_alone(code: CodeType, info: Any, options: Options) -> bool:
    """Whether the frame that was just captured, as `info` says, shall run as plain Python instead."""
    if options.capture_idle or options.fullgraph or code.co_flags & SUSPENDS:
        return False  # the driver of a generator has rules of its own
    if info.graph is not None:
        rest_of(code).looks = 0
        return False
    behind = list(info.resumes())
    for after in behind:
        rest_of(after).before.add(code)
    if any(e.info is not None and e.info.graph is not None for e in _native.entries(code)):
        return False
    if info.breaks is not None and not (behind and all(map(_is_resting, behind))):
        return False
    _put_to_rest(code)
    return True


def _is_resting(code: CodeType) -> bool:
    return rest_of(code).looks > 0 and not _native.entries(code)


def _put_to_rest(code: CodeType) -> None:
    rest = rest_of(code)
    _native.clear(code)
    _native.rest(code, RESTS[min(rest.looks, len(RESTS) - 1)])
    rest.looks += 1
    counters.count("frames_idle")
    notices.log("breaks", lambda: f"{code.co_filename}:{code.co_firstlineno}: {code.co_qualname} runs as plain Python: "
                "it computes nothing with arrays")
    if rest.looks == 2 and _native.current() is None:  # not found by the hook: the user asked for this very function
        notices.tell("nothing compiled", code.co_filename, code.co_firstlineno,
                     f"{code.co_qualname} computes nothing with arrays, and runs as plain Python",
                     hint='compile the function that computes, or say options={"capture_idle": True}', id="idle")
    for before in list(rest.before):
        infos = [e.info for e in _native.entries(before)]
        if infos and all(i is not None and i.graph is None and all(map(_is_resting, i.resumes())) for i in infos):
            _put_to_rest(before)


def reset() -> None:
    """Forgets what was found idle."""
    _RESTS.clear()
