"""Objects that are more than their trees: a class that JAX takes apart may leave out what it notes beside its leaves.

    x = e3nn.from_chunks("0e + 0o", [jnp.ones((1, 1)), None], ())  # notes that the second part is zero
    jax.tree.map(lambda leaf: leaf, x)                             # does not know that any more

Where eager JAX hands over the object itself, one that is put together again would be another. A function that JAX
makes (`jax.linearize(f, x)[1].out_nzs`) stands in the Graph itself: what shows at capture what it is like only has to
note the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax

from dynacomp.capture.base.classes import entries, fields, module_name, mro, own_dict
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.symbolic.libraries import is_pure_module


def put_together(tree: Any, leaves: list[Any]) -> Any:
    """The tree of these leaves; None where it holds no object of a library's class, whose Python may note something, or
    where that wants other leaves than it is given."""
    if not any(map(_is_of_library, _classes(tree))):
        return None
    try:
        return jax.tree.unflatten(tree, leaves)
    except ours(Exception):
        return None


def _classes(tree: Any) -> Iterator[type]:
    todo = [tree]
    while todo:
        node = todo.pop()
        data = node.node_data()
        if data is not None:
            yield data[0]
        todo.extend(node.children())


@remembered
def _is_of_library(cls: type) -> bool:
    return not issubclass(cls, (tuple, list, dict)) and is_pure_module(module_name(cls))


def has_lost(made: Any, again: Any) -> bool:
    """Whether some object in a tree has lost something in the tree that was put together again of its parts."""
    if again is None or type(made) is not type(again):
        return False
    if _is_of_library(type(made)) and not is_function_like(made) and _differ(type(made), fields(made), fields(again)):
        return True
    return any(has_lost(a, b) for a, b in zip(_parts(made), _parts(again)))


def is_function_like(made: Any) -> bool:
    """Whether something is a function that JAX has made, a pytree of what it closes over."""
    return isinstance(made, jax.tree_util.Partial) or type(made).__name__ == "VJP"


def note_again(made: Any, again: Any) -> None:
    """Functions in a tree that was put together again note beside their leaves what those did of which it was made."""
    if type(made) is not type(again):
        return
    if is_function_like(made):
        own_dict(again).update(own_dict(made))
    for one, other in zip(_parts(made), _parts(again)):
        note_again(one, other)


def _parts(tree: Any) -> list[Any]:
    found = jax.tree_util.default_registry.flatten_one_level(tree)
    return [] if found is None else list(found[0])


def _differ(cls: type, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether attributes of an object are others; what `cached_property` keeps, is found again."""
    names = {n for n in one.keys() | other.keys() if not any(
        isinstance(entries(base).get(n), functools.cached_property) for base in mro(cls))}
    return any(n not in one or n not in other or _is_other(one[n], other[n]) for n in names)


def _is_other(a: Any, b: Any) -> bool:
    """Whether one of two attributes is no more what the other is, as far as literals say."""
    if type(a) is type(b) and isinstance(a, (tuple, list)):
        return len(a) != len(b) or any(map(_is_other, a, b))
    return a is not b and (is_literal(a) or is_literal(b)) and (type(a) is not type(b) or repr(a) != repr(b))
