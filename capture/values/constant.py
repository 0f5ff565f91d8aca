"""Constants: Values whose very object is known.

    >>> holds(Const(3), int), stands_for(Const(None), None)
    (True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.sources import Source
from dynacomp.capture.values.value import Value


@dataclass(eq=False)
class Const(Value):
    """A real object: an immutable literal, or one known by identity (function, class, module).

    A function that is made anew for each call is known by its code: see `open_function`."""

    value: Any
    identify: Any = field(default=None, init=False)

    def __getattr__(self, name: str) -> Any:
        """The `value` of an open function: asked for only where it is not in the instance's dictionary."""
        if name != "value" or self.identify is None:
            raise AttributeError(name)
        identify, self.identify, self.value = self.identify, None, self.inside
        identify()
        return self.value


def open_function(fn: Any, source: Source, identify: Callable[[], None]) -> Const:
    """A function known by its code: `identify` guards its identity as soon as something looks at `value`; `peek`
    is for those who only ask what all such functions share."""
    made = Const(fn, source=source)
    made.identify, made.inside = identify, vars(made).pop("value")  # type: ignore[attr-defined]
    return made


def peek(value: Const) -> Any:
    """The object of a Const, without a guard on which one it is."""
    return value.value if value.identify is None else value.inside


def is_const(value: Any) -> TypeGuard[Const]:
    """Whether the object itself is known that a Value stands for."""
    return isinstance(value, Const)


def stands_for(value: Any, obj: Any) -> TypeGuard[Const]:
    """Whether `value` is the constant `obj`: None, NotImplemented."""
    return isinstance(value, Const) and peek(value) is obj


def holds(value: Any, kinds: Any) -> TypeGuard[Const]:
    """Whether `value` is a constant of these classes."""
    return isinstance(value, Const) and isinstance(peek(value), kinds)


def object_of(value: Any) -> Any:
    """The object of a Const; None of other Values."""
    return value.value if isinstance(value, Const) else None


def is_exactly(value: Any, *classes: type) -> TypeGuard[Const]:
    """Whether `value` is a constant of one of these classes, and of no subclass."""
    return isinstance(value, Const) and type(peek(value)) in classes


def is_known_literal(value: Any) -> TypeGuard[Const]:
    """Whether `value` is a constant that is its value: see `is_literal`."""
    return isinstance(value, Const) and is_literal(peek(value))


def is_open(value: Any) -> bool:
    """Whether `value` is a function known by its code alone."""
    return isinstance(value, Const) and value.identify is not None


define(Const, Kind(python_type=lambda v: type(peek(v)), constant=lambda v: v.value, existing=peek, now=peek))
