"""Values of instances, by their attributes; of closure cells; of what may not be looked into."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.value import MutableV, Value


@dataclass(eq=False)
class OpaqueV(Value):
    """An existing object that may be passed on but not looked into: an iterator, a file."""

    obj: Any


@dataclass(eq=False)
class ObjectV(Value):
    """An instance of a class with a `__dict__` or `__slots__`.

    `attrs` overlays the real object's attributes (DELETED for removed ones); for an object that
    the captured code made (`real` is None, or a template built by a library: `fresh`), it is all
    there is. `payload` is the built-in part of an instance of a subclass of list, dict, int, ... (see
    `builtin_subclasses`): a Value of the built-in class itself, on which inherited methods act.
    """

    cls: type
    real: Any = None
    attrs: dict[str, Any] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)  # deleted and set again: they come last in its dict
    arranged: Any = None  # the names in their order, where all attributes were taken out of its dict and put in again
    payload: Any = None
    unread: Any = None  # gives an existing object its payload when something first asks for it
    ctor: tuple[Value, ...] = ()  # arguments that `cls.__new__` was given (exceptions, ...)
    view: Any = None  # the DictV that stands for its `__dict__`, once the program has asked for it
    initialising: bool = False  # an Equinox module whose fields may be set, see `equinox_modules`


def _payload(self: Any) -> Any:
    if self.unread is not None:
        read, self.unread = self.unread, None
        self._payload = read(self)
    return self._payload

ObjectV.payload = property(_payload, lambda self, payload: setattr(self, "_payload", payload))  # type: ignore[assignment]


class _Deleted:
    def __repr__(self) -> str:
        return "DELETED"

DELETED = _Deleted()


@dataclass(eq=False)
class CellV(MutableV):
    """A closure cell; `content` is None while it is empty."""

    content: Any = None
    real: Any = None
    dirty: bool = False


define(OpaqueV, Kind(python_type=lambda v: type(v.obj), existing=lambda v: v.obj))
define(ObjectV, Kind(python_type=lambda v: v.cls, own_class=lambda v: v.cls))
define(CellV, Kind(python_type=lambda v: types.CellType))
