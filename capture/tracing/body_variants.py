"""Ways: a body that JAX calls more than once, with arguments of different kinds.

`jax.lax.associative_scan` calls its function on ever shorter arrays, `tree_map_with_path` with another
path each time: what the function does may differ, so each way is a Graph of its own. Where a Graph
needs such a body, a node with a `Dispatch` as its target makes one callable of all of them, which
picks by its arguments.

    >>> import jax.numpy as jnp
    >>> short, long = way_of((jnp.ones(2),), {}), way_of((jnp.ones(4),), {})
    >>> pick = Dispatch((short, long))(lambda x: "short", lambda x: "long")
    >>> pick(jnp.zeros(4))
    'long'
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.graph.avals import aval_of
from dynacomp.capture.tracing.hidden_tracers import is_body, made_of_trace


def is_array(x: Any) -> bool:
    return isinstance(x, jax.Array)


def way_of(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """What tells calls of a body apart: the tree of the arguments, shapes and dtypes of arrays, the
    values of other leaves, the types of those that have no value to compare."""
    leaves, treedef = jax.tree.flatten((args, kwargs))
    return treedef, tuple(map(_leaf, leaves))


def _leaf(x: Any) -> Any:
    if is_array(x):
        aval = aval_of(x)
        return aval.shape, aval.dtype
    return (type(x), x) if is_known(x) else (type(x), None)


def is_known(x: Any) -> bool:
    """Whether the body may treat the leaf as a constant: a value, or a function that is not made for each call."""
    return callable(x) and not made_of_trace(x) or not callable(x) and type(x).__hash__ not in (None, object.__hash__)


class Dispatch:
    """Makes one callable of several, `bodies[i]` being the one for calls of way `ways[i]`."""

    def __init__(self, ways: tuple[Any, ...]) -> None:
        self.ways = ways
        self.__name__ = self.__qualname__ = "dispatch"
        self.__module__ = __name__

    def __call__(self, *bodies: Callable[..., Any]) -> Callable[..., Any]:
        def body(*args: Any, **kwargs: Any) -> Any:
            return bodies[self.index(way_of(args, kwargs))](*args, **kwargs)

        body.__name__ = body.__qualname__ = bodies[0].__name__
        body._standin = None  # type: ignore[attr-defined]
        signature = getattr(bodies[0], "__signature__", None)
        if signature is not None:
            body.__signature__ = signature  # type: ignore[attr-defined]
        return body

    def index(self, way: Any) -> int:
        """Which body serves a call; KeyError when none was captured for it."""
        for agrees in (_equal, _like):
            for i, known in enumerate(self.ways):
                if agrees(known, way):
                    return i
        raise KeyError(f"a body was called in a way that its capture had not seen: {way}")


def _equal(a: Any, b: Any) -> bool:
    return a == b


def _like(a: Any, b: Any) -> bool:
    """Equal but for symbolic dimensions, which may be any number by now, and for other bodies among the arguments:
    when the Graph runs, JAX has other functions in their place than while capturing."""
    return a[0] == b[0] and all(x == y or _same_array(x, y) or _are_bodies(x, y) for x, y in zip(a[1], b[1]))


def _are_bodies(x: Any, y: Any) -> bool:
    return is_body(x[1]) and is_body(y[1])


def differ_by_bodies(ways: tuple[Any, ...]) -> bool:
    """Whether nothing but the bodies among their arguments tells two ways apart: a Dispatch could not."""
    return any(_like(a, b) and any(map(_are_bodies, a[1], b[1])) for a, b in itertools.combinations(ways, 2))


def _same_array(x: Any, y: Any) -> bool:
    if not (isinstance(x, tuple) and isinstance(y, tuple) and isinstance(x[0], tuple) and isinstance(y[0], tuple)):
        return False
    return x[1] == y[1] and len(x[0]) == len(y[0]) and all(
        m == n or not (isinstance(m, int) and isinstance(n, int)) for m, n in zip(x[0], y[0]))
