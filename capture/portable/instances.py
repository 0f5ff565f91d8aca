"""Objects of classes that Python code defines, taken apart and put together again: a class, the built-in object inside
(a tuple, say), slots, the dictionary. No code of the class runs.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    >>> put_together(Point, *taken_apart(Point(3)))
    Point(x=3)
    >>> taken_apart(type("Ids", (set,), {})({1, 2}))
    ({1, 2}, [], {})
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from dynacomp.capture.portable.homes import Unportable, is_library

HEAP_TYPE = 1 << 9
WORD = tuple.__itemsize__
BINDERS = ("nanobind", "pybind11")  # whose classes say that they were made by Python
BASES: dict[type, Callable[[Any], Any]] = {  # what classes of Python's hold besides attributes, as a plain object
    object: lambda obj: None, tuple: lambda obj: tuple(tuple.__iter__(obj)), list: lambda obj: list(list.__iter__(obj)),
    dict: lambda obj: dict(dict.items(obj)), set: lambda obj: set(set.__iter__(obj)),
    frozenset: lambda obj: frozenset(frozenset.__iter__(obj)),
}
Slots = list[tuple[type, str, tuple[Any, ...]]]  # the class that has it, its name, what it holds (nothing, where unset)


def taken_apart(obj: Any) -> tuple[Any, Slots, dict[str, Any] | None]:
    """What an object holds: inside, in slots, in its dictionary. Unportable where a class may hold more."""
    cls = type(obj)
    names = [(owner, name) for owner in cls.__mro__ for name, member in vars(owner).items()
             if type(member) is types.MemberDescriptorType and owner.__flags__ & HEAP_TYPE]
    base = base_of(cls)
    if base not in BASES or not _is_plain(cls, base, len(names)):
        raise Unportable(f"a {cls.__qualname__}")
    table = object_dict(obj)
    return BASES[base](obj), [(o, n, _content(obj, o, n)) for o, n in names], None if table is None else dict(table)


def put_together(cls: type, inside: Any, slots: Slots, table: dict[str, Any] | None) -> Any:
    """A new object that holds the same; its base is `object` or `tuple`."""
    made: Any = object.__new__(cls) if inside is None else tuple.__new__(cls, inside)
    for owner, name, content in slots:
        for value in content:
            vars(owner)[name].__set__(made, value)
    if table is not None:
        object_dict(made).update(table)  # type: ignore[union-attr]
    return made


def is_value(cls: type) -> bool:
    """Whether objects of a class are what they hold: tuples, and those that Python code compares and hashes. Of those
    that it only compares, which may change, a library's: the program's lie where guards find them."""
    base = base_of(cls)
    if cls is base or base not in (object, tuple):
        return False
    equal, hashed = _defined(cls, "__eq__"), _defined(cls, "__hash__")
    return base is tuple or type(equal) is types.FunctionType and (
        type(hashed) is types.FunctionType or hashed is None and is_library(sys.modules.get(cls.__module__)))


def _defined(cls: type, name: str) -> Any:
    return next(vars(c)[name] for c in cls.__mro__ if name in vars(c))


def base_of(cls: type) -> type:
    """The class of Python's that a class is made of."""
    return next(c for c in cls.__mro__ if not c.__flags__ & HEAP_TYPE)


def object_dict(obj: Any) -> dict[str, Any] | None:
    """The instance dictionary, whatever the class says of its attributes."""
    for cls in type(obj).__mro__:
        found = vars(cls).get("__dict__")
        if type(found) is types.GetSetDescriptorType:
            return found.__get__(obj, type(obj))  # type: ignore[no-any-return]
    return None


def _content(obj: Any, owner: type, name: str) -> tuple[Any, ...]:
    try:
        return (vars(owner)[name].__get__(obj, type(obj)),)
    except AttributeError:
        return ()


def _is_plain(cls: type, base: type, slots: int) -> bool:
    """Whether the objects of a class have no room for what is not seen: classes in C have."""
    defined = {name for owner in cls.__mro__ if owner is not base for name in vars(owner)}
    room = cls.__basicsize__ - base.__basicsize__ - WORD * slots
    words = sum(name in defined for name in ("__dict__", "__weakref__"))  # which some versions put elsewhere
    return (room in range(0, WORD * words + 1, WORD) and cls.__itemsize__ == base.__itemsize__
            and not type(cls).__module__.startswith(BINDERS))
