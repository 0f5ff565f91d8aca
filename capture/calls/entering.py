"""How a library function is entered that no changing size can pass: see `tracing.entered`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.lax.lax import _sort_le_comparator, _sort_lt_comparator
from jax._src.numpy import hijax

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.values import NeedsConcrete, Value
from dynacomp.capture.tracing.entered import python_inside

MAX_DECISIONS = 6  # conditions on sizes in a function that is entered


def _searchsorted(sorted_arr: Any, query: Any, /, *, side: str = "left", dimension: int = 0, batch_dims: int = 0,
                  method: str = "scan", dtype: Any = "int32") -> Any:
    """Halves an interval for each query until none is left to halve, which the length says when the Graph runs."""
    if sorted_arr.ndim != 1:
        raise NotImplementedError("a search along several axes")
    sorted_arr, query = jax.lax.stop_gradient((sorted_arr, query))
    is_before = _sort_le_comparator if side == "left" else _sort_lt_comparator
    n = jnp.asarray(sorted_arr.shape[0], jnp.int32)

    def halve(_: Any, interval: Any) -> Any:
        low, high = interval
        middle = low + (high - low) // 2
        left = is_before(query, sorted_arr[middle])
        return jnp.where(left, low, middle), jnp.where(left, middle, high)

    start = jnp.zeros(query.shape, jnp.int32)
    return jax.lax.fori_loop(0, 32 - jax.lax.clz(n), halve, (start, start + n))[1].astype(dtype)


# What `jnp.searchsorted` calls: of JAX 0.10, and of later ones.
SEARCH: Any = getattr(hijax, "searchsorted_via_expand", hijax.searchsorted)
# Functions that do as one of a library, and need no size as a constant.
SUBSTITUTES: dict[Any, Callable[..., Any]] = {SEARCH: _searchsorted}


def enter(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value],
          run: Callable[..., Value]) -> Value:
    """What `run(cap, fn, args, kwargs)` gives, which enters `fn`. If that can't be done, or if what it does depends on
    sizes by so many conditions that nearly every size would get an entry, the next attempt knows."""
    inside = python_inside(fn)
    decided = len(cap.sizes.scope.relations)
    try:
        found = run(cap, SUBSTITUTES.get(inside, inside), args, kwargs)
        if len(cap.sizes.scope.relations) - decided <= MAX_DECISIONS:
            return found
    except (Break, NeedsConcrete, Raised):
        pass
    cap.lessons.entered[inside] = False
    raise Restart
