"""What the structure of a tree says beside its leaves: keys, classes, and what classes keep out of sight.

A structure that is made of Values keeps those that are no leaves: a changing number, a function, an array. Classes
and libraries that look at them do not know Values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from dynacomp.capture.errors import Break
from dynacomp.capture.values import ArrayV, NumberV, is_literal

TREEDEF: Any = jax.tree_util.PyTreeDef


def taken_apart(flatten: Callable[..., Any], tree: Any, **options: Any) -> Any:
    """`flatten(tree, **options)`. Where it fails (keys that have no order, a class that refuses its leaves) the graph
    breaks: in Python it may do so with other words, or not at all."""
    try:
        return flatten(tree, **options)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Break("raises", f"{type(error).__name__} where a tree is flattened") from None


def arrays_in_structure(treedef: Any) -> bool:
    """Whether a tree's structure holds arrays: some class asks what a leaf is, and does not know Values."""
    return in_structure(treedef, (ArrayV, NumberV))


def in_structure(treedef: Any, kinds: type | tuple[type, ...]) -> bool:
    """Whether a tree's structure holds objects of these kinds, which are no leaves."""
    todo = [treedef]
    while todo:
        node = todo.pop()
        data = node.node_data()
        if data is not None and data[0] not in (tuple, list, dict, type(None)) and _has(data[1], kinds):
            return True
        todo.extend(node.children())
    return False


def _has(aux: Any, kinds: Any) -> bool:
    if isinstance(aux, (tuple, list)):
        return any(_has(x, kinds) for x in aux)
    return any(_has(x, kinds) for x in aux.values()) if type(aux) is dict else isinstance(aux, kinds)


def says_literals(treedef: Any) -> bool:
    """Whether all that a structure says beside classes is literals: no arrays, Values or sizes hide in it."""
    data = treedef.node_data()
    if data is None:
        return True
    held = tuple(data[1]) if type(data[1]) is list else data[1]
    return (is_literal(held) or isinstance(held, type)) and all(map(says_literals, treedef.children()))
