"""Sizes marked by the user: `mark_dynamic(x, dim)` and `mark_static(x, dim)`.

A mark belongs to an array object, as long as it lives, and counts when a capture sees the array.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

_DYNAMIC: dict[int, set[int]] = {}
_STATIC: dict[int, set[int]] = {}


def mark_dynamic(array: Any, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None) -> None:
    """The size of `dim` is symbolic from the first capture on.

    min and max say which sizes are expected. They document the call: one entry serves every size of
    at least 2, also outside these bounds. Raises IndexError where the array has no such dimension.
    """
    _mark(_DYNAMIC, array, dim)


def mark_static(array: Any, dim: int | Iterable[int]) -> None:
    """The size of `dim` stays a constant: each size gets an entry of its own."""
    _mark(_STATIC, array, dim)


def _mark(table: dict[int, set[int]], array: Any, dim: int | Iterable[int]) -> None:
    ndim = len(array.shape)
    for d in [dim] if isinstance(dim, int) else dim:
        if not -ndim <= d < ndim:
            raise IndexError(f"dimension {d} of an array with {ndim} dimensions")
        if id(array) not in table:
            table[id(array)] = set()
            weakref.finalize(array, table.pop, id(array), None)
        table[id(array)].add(d % ndim)


def dynamic_marks(array: Any) -> set[int]:
    return _DYNAMIC.get(id(array), set())


def static_marks(array: Any) -> set[int]:
    return _STATIC.get(id(array), set())
