"""Sizes marked by the user: `mark_dynamic(x, dim)` and `mark_static(x, dim)`.

A mark belongs to an array object, as long as it lives, and counts when a capture sees the array.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Bounds = tuple[int | None, int | None]  # the least and the greatest size; None: no such bound

_DYNAMIC: dict[int, dict[int, Bounds]] = {}
_STATIC: dict[int, dict[int, Bounds]] = {}


def mark_dynamic(array: Any, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None) -> None:
    """The size of `dim` is symbolic from the first capture on.

    min, max: the sizes that the entry is to serve, both included. Comparisons that they decide cost no
    guard and no entry of their own; a size outside of them gets another entry. Sizes 0 and 1, which
    broadcast, always have their own. Raises IndexError where the array has no such dimension,
    ValueError where its size is not within the bounds.

        dynacomp.mark_dynamic(batch, 0, min=16, max=4096)

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> batch = jnp.ones((16, 3))
        >>> dynacomp.mark_dynamic(batch, 0, min=2, max=64)
        >>> f = dynacomp.jit(lambda x: jnp.tanh(x).sum(0))
        >>> f(batch).shape, f(batch[:7]).shape
        ((3,), (3,))
    """
    for d in _mark(_DYNAMIC, array, dim, (min, max)):
        size = array.shape[d]
        if (min is not None and size < min) or (max is not None and size > max):
            del _DYNAMIC[id(array)][d]
            raise ValueError(f"dimension {d} has size {size}, which is not within min={min} and max={max}")


def mark_static(array: Any, dim: int | Iterable[int]) -> None:
    """The size of `dim` stays a constant: each size gets an entry of its own.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> dynacomp.mark_static(jnp.ones((16, 3)), 1)
    """
    _mark(_STATIC, array, dim, (None, None))


def _mark(table: dict[int, dict[int, Bounds]], array: Any, dim: int | Iterable[int], bounds: Bounds) -> list[int]:
    """Marks these dimensions; they are returned as positions from the front."""
    ndim, marked = len(array.shape), []
    for d in [dim] if isinstance(dim, int) else dim:
        if not -ndim <= d < ndim:
            raise IndexError(f"dimension {d} of an array with {ndim} dimensions")
        if id(array) not in table:
            table[id(array)] = {}
            weakref.finalize(array, table.pop, id(array), None)
        table[id(array)][d % ndim] = bounds
        marked.append(d % ndim)
    return marked


def dynamic_marks(array: Any) -> Mapping[int, Bounds]:
    """The marked dimensions of an array, with their bounds."""
    return _DYNAMIC.get(id(array), {})


def static_marks(array: Any) -> Collection[int]:
    return _STATIC.get(id(array), ())
