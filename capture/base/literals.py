"""Objects that are their value: Python's literals, and tuples and frozensets of them."""

from __future__ import annotations

from typing import Any

LITERALS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))


def is_literal(obj: Any) -> bool:
    """True of objects that are their value: exact numbers, strings, None, and tuples of them."""
    if type(obj) in LITERALS:
        return True
    return type(obj) in (tuple, frozenset) and all(map(is_literal, obj))


def is_single(obj: Any) -> bool:
    """True of literals of which CPython keeps one object: two that are equal are the same."""
    if type(obj) is int:
        return -6 < obj < 257
    return type(obj) in (bool, type(None), type(Ellipsis), type(NotImplemented)) or type(obj) is tuple and not obj
