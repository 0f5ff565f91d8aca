"""A Value, and what each is asked: the object that it stands for, its type, what it holds.

One small class per kind of Python object that the machine understands. A Value is compared by identity, as the object
that it stands for; mutable ones (lists, dicts, objects, cells) are changed in place and `side_effects` replays the
changes on the real object. `source` says where an object that existed before the call can be found; None means that
the captured code made it.

Behaviour lives elsewhere, in rows: see `kind`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.graph.graph import Node
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.sources import Source

next_serial: Callable[[], int] = itertools.count().__next__


@dataclass(eq=False)
class Value:
    """Base of all Values."""

    source: Source | None = field(default=None, kw_only=True)
    holder: Any = field(default=None, init=False)  # the ObjectV whose payload this is: they are one object
    serial: int = field(default_factory=next_serial, kw_only=True)  # order of birth
    payload = None  # of an ObjectV its built-in part


class MutableV(Value):
    """What may exist already and be changed in place: there is one Value for each object, which notes that it has
    changed. (Instances note which attributes were written.)"""

    dirty: bool


@dataclass(frozen=True, eq=False)
class Lazy:
    """A container's element that nothing has looked at: no guard yet."""

    obj: Any
    source: Source


class NotConstant(Exception):
    """A Value holds an array or something that only exists when the code runs."""

    def __str__(self) -> str:
        return type(self.args[0]).__name__.removesuffix("V").lower() if self.args else ""


def as_python(value: Any) -> Any:
    """The Python object that a constant Value stands for; raises NotConstant if there is none.

    Lists, dicts and sets come back as new objects: use it only where identity does not matter.
    """
    constant = kind(value).constant
    if constant is None:
        raise NotConstant(value)
    return constant(value)


def existing(value: Any) -> Any:
    """The object that `value` stands for, where it was there before the captured code; else None."""
    return kind(value).existing(value)  # type: ignore[misc]


def now(value: Any) -> Any:
    """What a constant, or a number or string that changes, is in this call; None for other Values."""
    row = kind(value).now
    return None if row is None else row(value)


def is_changing(value: Any) -> bool:
    """Whether `value` is a number or string of Python's that another call may have otherwise."""
    return kind(value).changes is True


def node_of(value: Any) -> Node | None:
    """The Node of the Graph that computes `value`, an array or a number; None of other Values."""
    row = kind(value).node
    return None if row is None else row(value)


def children(value: Any) -> Iterable[Any]:
    """What a tuple, list, dict or slice holds (nothing has looked at `Lazy` ones yet); none of other Values."""
    row = kind(value).children
    return () if row is None else row(value)


def is_constant(value: Any) -> bool:
    """Whether all that a Value stands for is known while capturing: `as_python` gives it."""
    try:
        as_python(value)
    except NotConstant:
        return False
    return True


def type_of(value: Value) -> type:
    """`type(value)` as the program would see it; NotConstant for values without a Python face."""
    python_type = kind(value).python_type
    if python_type is None:
        raise NotConstant(value)
    return python_type(value)


def _real_type(v: Any) -> type:
    if getattr(v, "real", None) is None:
        raise NotConstant(v)
    return type(v.real)


define(Lazy, Kind(existing=lambda v: v.obj))
define(Value, Kind(python_type=_real_type, existing=lambda v: getattr(v, "real", None)))
