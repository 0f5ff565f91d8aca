"""Values of what the interpreter keeps of frames: traceback entries, and what lies on the stack beside objects."""

from __future__ import annotations

import types
from dataclasses import dataclass
from types import CodeType
from typing import Any

from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.value import Value


@dataclass(eq=False)
class TracebackV(Value):
    """A traceback entry: `code` raised, or called what raised, at the instruction at byte `offset`;
    `inner` is the entry of what it called, or None's Value. `last` is where the frame itself ended: elsewhere
    if it raised the exception again."""

    code: CodeType
    globals: dict[str, Any]
    offset: int
    line: int
    inner: Value
    last: int


@dataclass(eq=False)
class HandlingV(Value):
    """The stack slot in which PUSH_EXC_INFO keeps what was handled before, while `error` is handled."""

    error: Value


@dataclass(eq=False)
class NullV(Value):
    """The NULL that calls keep on the stack."""


NULL = NullV()


def is_null(value: Value) -> bool:
    """Whether a place on the stack is the NULL that some instructions push."""
    return isinstance(value, NullV)
define(TracebackV, Kind(python_type=lambda v: types.TracebackType))
