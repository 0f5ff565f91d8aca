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

import collections
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bodies.hidden_tracers import is_body, made_of_trace
from dynacomp.capture.graph.avals import aval_of
from dynacomp.capture.graph.sizes import Size, canonical
from dynacomp.capture.wrapping.builtin_subclasses import is_bare_named_tuple

MAX_DEPTH = 8  # of functions and tuples inside each other
MADE = (types.FunctionType, functools.partial)  # what a call of a library makes anew


def is_array(x: Any) -> bool:
    return isinstance(x, jax.Array)


def way_of(args: tuple, kwargs: dict[str, Any], arrays: Any = jax.Array) -> tuple[Any, tuple[Any, ...]]:
    """What tells calls of a body apart: the tree of the arguments with the orders of its dicts, shapes and dtypes of
    arrays, the values of other leaves, the types of those that have no value to compare. arrays: their classes."""
    leaves, treedef = jax.tree.flatten((args, kwargs))
    return (treedef, orders((args, kwargs))), tuple(_leaf(x, arrays) for x in leaves)


def orders(tree: Any) -> tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]:
    """The dicts in a tree that JAX would put together in another order, each by the way to it, with its keys: a library
    may hand on a dict as it was given it.

    >>> orders(({"b": 1, "a": [{"d": 2, "c": 3}]}, {"x": 4, "y": 5}))
    (((0,), ('b', 'a')), ((0, 'a', 0), ('d', 'c')))
    """
    return tuple(_orders(tree, ()))


def _orders(tree: Any, way: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    if type(tree) in (dict, collections.defaultdict):
        if sorted(tree) != list(tree):
            yield way, tuple(tree)
        inside: Iterable[tuple[Any, Any]] = tree.items()
    else:
        inside = enumerate(tree) if type(tree) in (tuple, list) or is_bare_named_tuple(type(tree)) else ()
    for key, part in inside:
        yield from _orders(part, (*way, key))


def settled(key: Any) -> Any:
    """What tells calls apart, with one size for those that were found equal since."""
    if type(key) in (tuple, list):
        return tuple(map(settled, key))
    return canonical(key) if type(key) is Size else key


def _leaf(x: Any, arrays: Any) -> Any:
    if isinstance(x, arrays):
        aval = aval_of(x)
        return aval.shape, aval.dtype
    if not is_known(x):
        return type(x), None
    if type(x) in MADE and not is_body(x):
        return type(x), likeness(x)
    return type(x), x if _has_hash(x) else Compared(x)


def _has_hash(x: Any) -> bool:
    """Whether an object has a hash: one whose class makes it of the parts (a module of flax) has none where one of
    them has none (a dataclass that is not frozen, as configurations are)."""
    try:
        hash(x)
    except TypeError:
        return False
    return True


def is_known(x: Any) -> bool:
    """Whether the body may treat the leaf as a constant: a value, or a function that is not made for each call."""
    return callable(x) and not made_of_trace(x) or not callable(x) and type(x).__hash__ not in (None, object.__hash__)


class Itself:
    """An object that is like no other, whatever its class says of `==`."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)


class Compared(Itself):
    """An object without a hash, like those to which it is equal."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compared) or type(other.obj) is not type(self.obj):
            return False
        try:
            return other.obj is self.obj or bool(other.obj == self.obj)
        except ours(Exception):  # arrays inside, whose comparison is no truth
            return False

    def __hash__(self) -> int:
        return id(type(self.obj))


def likeness(held: Any, depth: int = 0) -> Any:
    """What two functions have in common that a library has made of the same: when the Graph runs, it makes others
    than while capturing. Code and globals, and what stands in defaults and cells, functions among it likewise."""
    if is_literal(held):
        return type(held), repr(held)
    if depth < MAX_DEPTH and type(held) is tuple:
        return tuple(likeness(x, depth + 1) for x in held)
    if depth == MAX_DEPTH or type(held) not in MADE or is_body(held):
        return Itself(held)
    if type(held) is functools.partial:
        parts = (held.func, held.args, tuple(sorted(held.keywords.items())))
        return functools.partial, *(likeness(x, depth + 1) for x in parts)
    filled = [cell.cell_contents for cell in held.__closure__ or () if cell != types.CellType()]
    options = sorted((held.__kwdefaults__ or {}).items())
    return (held.__code__, Itself(held.__globals__), *(
        likeness(x, depth + 1) for x in (held.__defaults__, tuple(options), *filled)))


class Dispatch:
    """Makes one callable of several, `bodies[i]` being the one for calls of way `ways[i]`."""

    def __init__(self, ways: tuple[Any, ...], arrays: Any = jax.Array) -> None:
        self.ways, self.arrays = ways, arrays
        self.__name__ = self.__qualname__ = "dispatch"
        self.__module__ = __name__

    def __call__(self, *bodies: Callable[..., Any]) -> Callable[..., Any]:
        def body(*args: Any, **kwargs: Any) -> Any:
            return bodies[self.index(way_of(args, kwargs, self.arrays))](*args, **kwargs)

        body.__name__ = body.__qualname__ = bodies[0].__name__
        body._standin = None  # type: ignore[attr-defined]
        signature = getattr(bodies[0], "__signature__", None)
        if signature is not None:
            body.__signature__ = signature  # type: ignore[attr-defined]
        return body

    def index(self, way: Any) -> int:
        """Which body serves a call; KeyError when none was captured for it."""
        for agrees in (_equal, _like, _like_in_another_order):
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


def _like_in_another_order(a: Any, b: Any) -> bool:
    return a[0][0] == b[0][0] and _like((None, a[1]), (None, b[1]))


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
