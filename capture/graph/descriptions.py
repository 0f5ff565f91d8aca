"""What says how an array is, and is none: objects of JAX that libraries keep where no array would go, beside the leaves
of a tree (the input of a linear operator). Where a size in one changes, each call has its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.graph.sizes import Size, is_symbolic

DESCRIPTIONS: tuple[Any, ...] = (jax.ShapeDtypeStruct, jax.core.ShapedArray)


def is_size_of(scope: Any, x: Any) -> bool:
    """Whether `x` is made of a capture's symbolic sizes; the program can have symbolic sizes of its own."""
    return type(x) is Size and x.scope is scope


def says_sizes_of(scope: Any, x: Any) -> bool:
    """Whether `x` says how an array is that has such a size."""
    return type(x) in DESCRIPTIONS and any(is_size_of(scope, d) for d in x.shape)


def as_called(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments with which its class makes such an object; None where these do not tell all."""
    more = {name: getattr(x, name) for name in ("weak_type", "sharding") if getattr(x, name)}
    return ((x.shape, x.dtype), more) if type(x)(x.shape, x.dtype, **more) == x else None


def rebuilt(treedef: Any, change: Callable[[Any], Any]) -> Any:
    """The structure of a tree, with `change(held)` in the place of what each node of it holds beside its leaves."""
    data = treedef.node_data()
    if data is None:
        return treedef
    kept, children = change(data[1]), treedef.children()
    below = [rebuilt(child, change) for child in children]
    if kept is data[1] and all(a is b for a, b in zip(below, children)):
        return treedef
    return type(treedef).from_node_data_and_children(jax.tree_util.default_registry, (data[0], kept), below)


def at_sizes(held: Any, put: Callable[[Size], Any]) -> Any:
    """What a structure holds, with `put(size)` in the place of the sizes in it, and of those that descriptions speak
    of; itself where there are none. Containers are looked into, other objects are not."""
    if is_symbolic(held):
        return put(held)
    if type(held) in DESCRIPTIONS and any(map(is_symbolic, held.shape)):
        return held.update(shape=tuple(put(d) if is_symbolic(d) else d for d in held.shape))
    if issubclass(type(held), tuple) or type(held) is list:
        items = [at_sizes(item, put) for item in held]
        made = list if type(held) is list else functools.partial(tuple.__new__, type(held))
        return held if all(a is b for a, b in zip(items, held)) else made(items)
    if type(held) is dict:
        table = {key: at_sizes(item, put) for key, item in held.items()}
        return held if all(table[key] is item for key, item in held.items()) else table
    return held
