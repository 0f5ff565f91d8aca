"""A code object as the symbolic machine reads it: instructions, jumps, exception table.

`decode(code)` works on 3.11 to 3.13 through the standard `dis` module and is cached per code
object (weakly; code objects compare by value, so the cache is keyed by identity).
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

VERSION = sys.version_info[:2]  # of the Python whose bytecode this is


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `argval` is what `dis` resolves: a name, a constant, a jump's offset."""

    index: int
    offset: int
    name: str
    arg: int
    argval: Any
    line: int


@dataclass(frozen=True, slots=True)
class Handler:
    """An entry of the exception table: instructions [start, end) go to `target` with the stack
    cut to `depth` (and the failing offset pushed when `lasti`). Offsets in bytes."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(eq=False, slots=True)
class Decoded:
    """A code object's instructions, `at` (byte offset → index) and handlers."""

    code: CodeType
    instrs: tuple[Instruction, ...]
    at: dict[int, int]
    handlers: tuple[Handler, ...]

    def handler(self, offset: int) -> Handler | None:
        """The innermost handler that covers the instruction at `offset`."""
        found = None
        for h in self.handlers:
            if h.start <= offset < h.end:
                found = h
        return found


def argument_count(code: CodeType) -> int:
    """How many of `co_varnames` are parameters, `*args` and `**kwargs` included."""
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


# What was decoded, without the code object: it would never die.
_CACHE: dict[int, tuple[weakref.ref[CodeType], tuple[Any, ...]]] = {}


def decode(code: CodeType) -> Decoded:
    """The instructions of a code object and the handlers of its exceptions; once for each object."""
    hit = _CACHE.get(id(code))
    if hit is not None and hit[0]() is code:
        return Decoded(code, *hit[1])
    decoded = _decode(code)
    key, parts = id(code), (decoded.instrs, decoded.at, decoded.handlers)
    _CACHE[key] = (weakref.ref(code, lambda _, forget=_CACHE.pop: forget(key, None)), parts)  # type: ignore[misc]
    return decoded


def per_code(fn: Callable[[Decoded], Any]) -> Callable[[Decoded], Any]:
    """A cache by the code's identity (code objects compare by value) that keeps no code alive."""
    known: dict[int, tuple[weakref.ref[CodeType], Any]] = {}

    def cached(code: Decoded) -> Any:
        hit = known.get(id(code.code))
        if hit is None or hit[0]() is not code.code:
            key = id(code.code)
            hit = known[key] = (weakref.ref(code.code, lambda _: known.pop(key, None)), fn(code))
        return hit[1]

    return cached


def _decode(code: CodeType) -> Decoded:
    instrs: list[Instruction] = []
    at: dict[int, int] = {}
    line = code.co_firstlineno
    for raw in dis.get_instructions(code, show_caches=False):
        started = getattr(raw, "line_number", raw.starts_line) if hasattr(raw, "line_number") else raw.starts_line
        line = started if isinstance(started, int) and not isinstance(started, bool) else line
        at[raw.offset] = len(instrs)
        if raw.opname == "EXTENDED_ARG":
            continue
        instrs.append(Instruction(len(instrs), raw.offset, raw.opname, raw.arg or 0, raw.argval, line))
    return Decoded(code, tuple(instrs), at, _handlers(code))


def _handlers(code: CodeType) -> tuple[Handler, ...]:
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    return tuple(Handler(e.start, e.end, e.target, e.depth, e.lasti) for e in entries)
