"""Functions that do nothing but store arguments in the first one: what `@dataclass` writes as `__init__`, and others.

    def __init__(self, x, y=0):
        self.x = x                                    # Assignment("x", "x")
        object_in_a_cell.__setattr__(self, "y", y)    # Assignment("y", "y", "object_in_a_cell"): frozen dataclasses

What such a call does is known without a frame that runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.bytecode.code import Decoded, Instruction, per_code


@dataclass(frozen=True)
class Assignment:
    """An attribute of the first argument is given an argument: by a statement, or by the `__setattr__` of what lies in
    the cell `setter`."""

    attribute: str
    argument: str
    setter: str | None = None


class Other(Exception):
    """The function does more."""


@dataclass
class Reading:
    """How far the instructions have been read: what lies on the stack, what was stored."""

    first: str
    stack: list[tuple[str, Any]]
    found: list[Assignment]

    def pop(self, kind: str) -> Any:
        if not self.stack or self.stack[-1][0] != kind:
            raise Other
        return self.stack.pop()[1]

    def store(self, target: str, attribute: Any, argument: str, setter: str | None) -> None:
        if target != self.first or type(attribute) is not str:
            raise Other
        self.found.append(Assignment(attribute, argument, setter))


def _load(r: Reading, i: Instruction) -> None:
    names = i.argval if type(i.argval) is tuple else (i.argval,)
    r.stack.extend(("local", name) for name in names)


def _load_method(r: Reading, i: Instruction) -> None:
    if i.argval != "__setattr__":
        raise Other
    r.stack.append(("setter", r.pop("cell")))


def _store_attr(r: Reading, i: Instruction) -> None:
    target, argument = r.pop("local"), r.pop("local")
    r.store(target, i.argval, argument, None)


def _call(r: Reading, i: Instruction) -> None:
    if i.arg != 3:
        raise Other
    argument, name, target = r.pop("local"), r.pop("const"), r.pop("local")
    r.store(target, name, argument, r.pop("setter"))
    r.stack.append(("nothing", None))


def _return_value(r: Reading, i: Instruction) -> None:
    if r.pop("const") is not None or r.stack:
        raise Other


def _return_const(r: Reading, i: Instruction) -> None:
    if i.argval is not None or r.stack:
        raise Other


def _pass(r: Reading, i: Instruction) -> None:
    pass


STEPS: dict[str, Callable[[Reading, Instruction], None]] = {
    "LOAD_FAST": _load, "LOAD_FAST_LOAD_FAST": _load, "STORE_ATTR": _store_attr,
    "LOAD_CONST": lambda r, i: r.stack.append(("const", i.argval)),
    "LOAD_DEREF": lambda r, i: r.stack.append(("cell", i.argval)),
    "LOAD_METHOD": _load_method, "LOAD_ATTR": _load_method, "CALL": _call, "POP_TOP": lambda r, i: r.pop("nothing"),
    "RETURN_VALUE": _return_value, "RETURN_CONST": _return_const,
    **dict.fromkeys(("RESUME", "COPY_FREE_VARS", "PRECALL", "NOP"), _pass)}


@per_code
def assignments(code: Decoded) -> tuple[Assignment, ...] | None:
    """What a function stores, in order; None of one that does anything else, or nothing."""
    if code.code.co_argcount == 0 or code.handlers or not all(i.name in STEPS for i in code.instrs):
        return None
    reading = Reading(code.code.co_varnames[0], [], [])
    try:
        for i in code.instrs:
            STEPS[i.name](reading, i)
    except Other:
        return None
    return tuple(reading.found) or None
