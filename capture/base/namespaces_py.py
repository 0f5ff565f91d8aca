"""`types.SimpleNamespace` in Python: what the machine enters in place of its methods, which are in C.

An instance is an object with a dictionary and nothing else, so it is an `ObjectV` like those of Python
classes; its class says how one is made, compared and shown.

    >>> differ(Namespace(a=1), Namespace(a=2)), shown(Namespace(a=1))
    (True, 'namespace(a=1)')
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace as Namespace
from typing import Any


def fill(self: Any, /, *mapping: Any, **attributes: Any) -> None:
    if mapping and sys.version_info < (3, 13):
        raise TypeError("no positional arguments expected")
    if len(mapping) > 1:
        raise TypeError(f"{type(self).__name__} expected at most 1 argument, got {len(mapping)}")
    given = dict(*mapping)
    if not all(isinstance(key, str) for key in given):
        raise TypeError("keywords must be strings")
    self.__dict__.update(given)
    self.__dict__.update(attributes)


def same(self: Any, other: Any, /) -> Any:
    if not isinstance(other, Namespace):
        return NotImplemented
    return self.__dict__ == other.__dict__


def differ(self: Any, other: Any, /) -> Any:
    if not isinstance(other, Namespace):
        return NotImplemented
    return self.__dict__ != other.__dict__


def shown(self: Any, /) -> str:
    name = "namespace" if type(self) is Namespace else type(self).__name__
    parts = [f"{key}={value!r}" for key, value in self.__dict__.items() if isinstance(key, str) and key]
    return f"{name}({', '.join(parts)})"


TWINS: dict[Any, Callable] = {
    Namespace.__init__: fill, Namespace.__eq__: same, Namespace.__ne__: differ, Namespace.__repr__: shown}
