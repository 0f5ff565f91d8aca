"""What the structure of a tree says beside its leaves: keys, classes, and what classes keep out of sight.

A structure that is made of Values keeps those that are no leaves: a changing number, a function, an array. Classes
and libraries that look at them do not know Values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.errors import Break
from dynacomp.capture.values import ArrayV, NumberV


def taken_apart(flatten: Callable[..., Any], tree: Any, **options: Any) -> Any:
    """`flatten(tree, **options)`. Where it fails (keys that have no order, a class that refuses its leaves) the graph
    breaks: in Python it may do so with other words, or not at all."""
    try:
        return flatten(tree, **options)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Break("raises", f"{type(error).__name__} where a tree is flattened") from None


def arrays_in_structure(treedef: Any) -> bool:
    """Whether a tree's structure holds arrays: some class asks what a leaf is, and does not know Values."""
    todo = [treedef]
    while todo:
        node = todo.pop()
        data = node.node_data()
        if data is not None and data[0] not in (tuple, list, dict, type(None)) and _has_array(data[1]):
            return True
        todo.extend(node.children())
    return False


def _has_array(aux: Any) -> bool:
    if isinstance(aux, (tuple, list)):
        return any(map(_has_array, aux))
    return any(map(_has_array, aux.values())) if type(aux) is dict else isinstance(aux, (ArrayV, NumberV))
