"""What the structure of a tree says beside its leaves: keys, classes, and what classes keep out of sight.

A structure that is made of Values keeps those that are no leaves: a changing number, a function, an array. Classes
and libraries that look at them do not know Values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from dynacomp.capture.base.classes import entries, mro, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.graph.descriptions import at_sizes, rebuilt
from dynacomp.capture.graph.sizes import Size
from dynacomp.capture.symbolic.libraries import has_user_call, is_library
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.pytree_shells import flattened_by_name


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
    return any(_has(aux, kinds) for aux in _kept(treedef))


def kept_by_libraries(treedef: Any, kinds: type | tuple[type, ...]) -> bool:
    """The same of what objects keep that a library may call, or that are its own: it does not know Values. A body that
    is given another object of the program's has its functions as they were."""
    return any(_has(aux, kinds) for cls, aux in _kept_by(treedef) if is_library(cls) or may_be_called(cls))


@remembered
def may_be_called(cls: type) -> bool:
    """Whether a library may call the program's code of an instance: it is a function, or has its own way of doing what
    a class of the library does."""
    above = [name for base in mro(cls) if is_library(base) for name in entries(base) if not name.startswith("_")]
    return has_user_call(cls) or any(
        name in entries(base) for base in mro(cls) if not is_library(base) for name in above)


def is_marked(treedef: Any) -> bool:
    """Whether a class keeps a bare `object()` beside its leaves, which is told apart by its identity alone: a library
    that makes one in each call asks whether it gets it back."""
    return any(type(part) is object for aux in _kept(treedef) for part in _parts(aux))


def numbers_out_of_sight(treedef: Any) -> bool:
    """Whether an object that a class keeps beside its leaves holds changing numbers: there nobody finds them again."""
    return any(_has(part, (ScalarV, SizeV)) for aux in _kept(treedef) for part in _parts(aux))


def sizes_out_of_sight(treedef: Any) -> bool:
    """The same of sizes, which are found again where `descriptions.at_sizes` looks."""
    return in_structure(treedef, Size) and in_structure(
        rebuilt(treedef, lambda held: at_sizes(held, lambda size: 0)), Size)


def unread(treedef: Any) -> list[Value]:
    """The Values in objects of the program's that classes keep beside their leaves, where JAX takes these apart by the
    names of their fields: it compares such objects by their identity alone. Not those that stand there by themselves,
    too: the structures of two calls would differ in them."""
    inside: dict[int, Value] = {}
    beside: set[int] = set()
    for cls, aux in _kept_by(treedef):
        for value, closed in _values(aux, flattened_by_name(cls)):
            inside.update([(id(value), value)] if closed else [])
            beside.update([] if closed else [id(value)])
    return [value for key, value in inside.items() if key not in beside]


def _values(aux: Any, by_identity: bool) -> Iterator[tuple[Value, bool]]:
    """The Values in what a class keeps, each with whether it is in an object that is compared by its identity."""
    todo = [(aux, False)]
    seen: dict[tuple[int, bool], Any] = {}
    while todo:
        held, closed = todo.pop()
        if is_value(held):
            yield held, closed
        elif (id(held), closed) not in seen and not is_literal(held):
            seen[id(held), closed] = held
            closed = closed or by_identity and is_plain_instance(held) and type(held).__eq__ is object.__eq__
            todo.extend((part, closed) for part in _inside(held))


def _kept(treedef: Any) -> Iterator[Any]:
    """What the classes in a tree keep beside their leaves."""
    return (aux for _, aux in _kept_by(treedef))


def _kept_by(treedef: Any) -> Iterator[tuple[type, Any]]:
    """The same with the classes."""
    todo = [treedef]
    while todo:
        node = todo.pop()
        data = node.node_data()
        if data is not None and data[0] not in (tuple, list, dict, type(None)):
            yield data
        todo.extend(node.children())


def _has(aux: Any, kinds: Any) -> bool:
    """Whether that is, or holds at any depth, an object of these kinds."""
    todo: list[Any] = [aux]
    seen: dict[int, Any] = {}
    while todo:
        held = todo.pop()
        if issubclass(type(held), kinds):
            return True
        if id(held) not in seen and not is_literal(held) and not issubclass(type(held), Value):
            seen[id(held)] = held
            todo.extend(_inside(held))
    return False


def _parts(aux: Any) -> Iterator[Any]:
    """The objects in containers."""
    if issubclass(type(aux), CONTAINERS):
        for element in _elements(aux):
            yield from _parts(element)
    elif not issubclass(type(aux), Value):
        yield aux


CONTAINERS = (tuple, list, dict)
TREEDEF: Any = jax.tree_util.PyTreeDef


def _inside(held: Any) -> Iterable[Any]:
    """What something holds directly; a structure (of the attributes that a class takes apart itself), what the classes
    in it keep."""
    if issubclass(type(held), TREEDEF):
        return _kept(held)
    return _elements(held) if issubclass(type(held), CONTAINERS) else _attributes(held)


def _elements(held: Any) -> Iterable[Any]:
    return dict.values(held) if issubclass(type(held), dict) else held


def _attributes(held: Any) -> Iterable[Any]:
    return own_dict(held).values() if is_plain_instance(held) else ()
