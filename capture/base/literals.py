"""Objects that are their value: Python's literals, and tuples and frozensets of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LITERALS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
INTEGERS: tuple[type, ...] = tuple(np.dtype(code).type for code in "bhilqBHILQ")


def is_literal(obj: Any) -> bool:
    """True of objects that are their value: exact numbers, strings, None, and tuples of them."""
    return type(obj) in LITERALS or type(obj) in (tuple, frozenset) and all(type(x) in LITERALS for x in leaves(obj))


def is_plain_key(obj: Any) -> bool:
    """Whether its hash and equality run no code of the program's: a literal, an integer of NumPy, tuples of such."""
    if type(obj) in (tuple, frozenset):
        return all(type(x) in LITERALS or type(x) in INTEGERS for x in leaves(obj))
    return type(obj) in LITERALS or type(obj) in INTEGERS


def leaves(obj: Any) -> Iterator[Any]:
    """What tuples and frozensets inside each other hold. Each is gone through once: where the next holds all that were
    before it, as natural numbers do in set theory, there are twice as many ways into each."""
    todo, seen = [obj], set()
    while todo:
        part = todo.pop()
        if type(part) not in (tuple, frozenset):
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            todo.extend(part)


def is_single(obj: Any) -> bool:
    """True of literals of which CPython keeps one object: two that are equal are the same."""
    if type(obj) is int:
        return -6 < obj < 257
    return type(obj) in (bool, type(None), type(Ellipsis), type(NotImplemented)) or type(obj) is tuple and not obj
