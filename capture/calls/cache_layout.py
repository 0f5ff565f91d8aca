"""Where CPython keeps what `functools.lru_cache` and `functools.cache` have: fields of objects in C, as descriptors.

The places are found by looking at an example, and None on a Python whose caches are not like that.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from typing import Any

WRAPPER = functools._lru_cache_wrapper


class MemberDef(ctypes.Structure):
    """CPython's `PyMemberDef`."""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


OBJECT, COUNT, READ_ONLY = 16, 19, 1  # Py_T_OBJECT_EX, Py_T_PYSSIZET, Py_READONLY
POINTER = ctypes.sizeof(ctypes.c_void_p)
KEPT: list[Any] = []  # the definitions, for as long as the descriptors live


def member_at(owner: Any, name: str, held: Any, flags: int = READ_ONLY) -> Any:
    """A descriptor of the field of the C object `owner` that refers to `held`, by the name `name`; None if there is
    none."""
    place = next((n for n, word in enumerate(_words(owner)) if n > 1 and word == id(held)), None)
    return None if place is None else _member(type(owner), name, place, OBJECT, flags)


def _words(owner: Any) -> list[int | None]:
    """What lies in a C object, word by word."""
    return list((ctypes.c_void_p * (type(owner).__basicsize__ // POINTER)).from_address(id(owner)))


def _member(cls: type, name: str, place: int, what: int, flags: int) -> Any:
    definition = MemberDef(name.encode(), what, place * POINTER, flags, None)
    KEPT.append(definition)
    return NEW_MEMBER(cls, ctypes.byref(definition))


def _count_of(wrapper: Any, name: str, calls: Any) -> Any:
    """A descriptor, which may be set, of what counts these calls."""
    before = _words(wrapper)
    calls()
    places = [n for n, (old, new) in enumerate(zip(before, _words(wrapper))) if (new or 0) - (old or 0) == 3]
    return _member(WRAPPER, name, places[0], COUNT, 0) if len(places) == 1 else None


NEW_MEMBER: Any = ctypes.pythonapi.PyDescr_NewMember
NEW_MEMBER.restype, NEW_MEMBER.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.POINTER(MemberDef)]


def _example(*args: Any, **kwargs: Any) -> list[Any]:
    return []


def _members() -> tuple[Any, Any, Any]:
    """Descriptors of a wrapper's dict and of a link's result, and the mark before named arguments in keys; Nones for
    a Python whose caches are not like that."""
    wrapper = functools.lru_cache(maxsize=2)(_example)
    found = wrapper(name=1)
    table = next((x for x in gc.get_referents(wrapper) if type(x) is dict and len(x) == 1), {})
    for key, link in table.items():
        if type(key) is tuple and key[1:] == ("name", 1):
            return member_at(wrapper, "cache", table), member_at(link, "result", found), key[0]
    return None, None, None


CACHE, RESULT, MARK = _members()


def _filling() -> tuple[Any, Any, Any]:
    """Descriptors of a wrapper's function and of its counts, which may be set; Nones where one was not found."""
    wrapper = functools.lru_cache(maxsize=None)(_example)
    function = member_at(wrapper, "function", _example, 0)
    misses = _count_of(wrapper, "misses", lambda: [wrapper(n) for n in range(3)])
    hits = _count_of(wrapper, "hits", lambda: [wrapper(n) for n in range(3)])
    found = (function, hits, misses)
    if None in found:
        return None, None, None
    hits.__set__(wrapper, 11)
    misses.__set__(wrapper, 7)
    return found if wrapper.cache_info()[:2] == (11, 7) else (None, None, None)


FUNCTION, HITS, MISSES = _filling()
