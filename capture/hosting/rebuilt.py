"""What makes an object in a node: copies of existing callables and objects with Values' objects in some places.

Each is a function of what stands there, and runs no code of the class or function that it copies:

    WithCells(update_fn, (0,))(rate)            # update_fn, whose first cell holds `rate`
    WithFields(MultiSteps, ("_opt",))(opt)      # a MultiSteps whose only attribute is `opt`

A `LibraryArg` is such a call among a node's arguments, before it is in the Graph.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from dynacomp.capture.graph.graph import Node
from dynacomp.capture.wrapping.builtin_subclasses import IMMUTABLE, payload_base, refill


@dataclass(eq=False)
class LibraryArg:
    """`make(*args, **kwargs)` evaluated in place; `nodes` caches its Node per body."""

    make: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    nodes: dict[Any, Node] = field(default_factory=dict)


def is_library_arg(value: Any) -> TypeGuard[LibraryArg]:
    """Whether a lowered argument is what a library makes."""
    return isinstance(value, LibraryArg)


class WithCells:
    """`fn` with the contents of some closure cells replaced; `indices` says which. latest: what was made last."""

    def __init__(self, fn: types.FunctionType, indices: tuple[int, ...]) -> None:
        self.fn, self.indices = fn, indices
        self.latest: Callable[[], types.FunctionType | None] = lambda: None
        self.__name__ = self.__qualname__ = fn.__name__
        self.__module__ = "jax"

    def __call__(self, *contents: Any) -> Any:
        cells = list(self.fn.__closure__ or ())
        for i, content in zip(self.indices, contents):
            cells[i] = types.CellType(content)
        made = types.FunctionType(self.fn.__code__, self.fn.__globals__, self.fn.__name__, self.fn.__defaults__,
                                  tuple(cells))
        made.__kwdefaults__ = self.fn.__kwdefaults__
        self.latest = weakref.ref(made)
        return made


class WithAttributes:
    """A copy of a library object with some attributes replaced."""

    def __init__(self, obj: Any, names: tuple[str, ...]) -> None:
        self.obj, self.names = obj, names
        self.__name__ = self.__qualname__ = type(obj).__name__
        self.__module__ = "jax"

    def __call__(self, *contents: Any) -> Any:
        made = object.__new__(type(self.obj))  # copy.copy asks the object, which may forward to its function
        vars(made).update(vars(self.obj))
        for name, content in zip(self.names, contents):
            object.__setattr__(made, name, content)
        return made


class WithFields:
    """Makes an instance of `cls` of its attributes; no code of the class runs."""

    def __init__(self, cls: type, names: tuple[str, ...]) -> None:
        self.cls, self.names = cls, names
        self.__name__ = self.__qualname__ = cls.__name__
        self.__module__ = cls.__module__

    def __call__(self, *contents: Any) -> Any:
        made: Any = object.__new__(self.cls)
        for name, content in zip(self.names, contents):
            object.__setattr__(made, name, content)
        return made


class OfClass:
    """Makes an instance of `cls`, a subclass of a built-in class, from its content; no code of the class runs."""

    def __init__(self, cls: type) -> None:
        self.cls, self.base = cls, payload_base(cls)
        self.__name__ = self.__qualname__ = cls.__name__
        self.__module__ = cls.__module__

    def __call__(self, content: Any) -> Any:
        base: Any = self.base
        if base in IMMUTABLE:
            return base.__new__(self.cls, content)
        made = base.__new__(self.cls)
        refill(made, content)
        return made
