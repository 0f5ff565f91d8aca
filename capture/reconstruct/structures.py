"""Structures of trees that leave the capture. Classes keep objects beside their leaves; in a structure that was made
while capturing, Values and shells stand for these (see `pytree_shells`): each call puts its own objects in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.classes import fields
from dynacomp.capture.graph.descriptions import rebuilt
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.immutability import TREEDEF


@dataclass(frozen=True)
class Slot:
    """Where an object of the call goes, by number."""

    number: int


def emptied(treedef: Any, shells: Mapping[int, tuple[Value, Any]]) -> tuple[Any, list[Value]]:
    """The structure with slots in place of shells and of Values (a function that is no leaf), and what they stand
    for."""
    found: dict[int, tuple[Slot, Value]] = {}

    def change(held: Any) -> Any:
        if id(held) not in shells and not is_value(held):
            return held
        value = held if is_value(held) else shells[id(held)][0]
        return found.setdefault(id(value), (Slot(len(found)), value))[0]

    made = replaced(treedef, change)
    return made, [value for _, value in found.values()]


def holds_class(treedef: Any, classes: list[type]) -> bool:
    """Whether nodes of the structure are of one of these classes."""
    data = treedef.node_data()
    if data is None:
        return False
    return data[0] in classes or data[0] is None and data[1] in classes or any(
        holds_class(child, classes) for child in treedef.children())


def has_shells(constant: Any, shells: Mapping[int, tuple[Value, Any]]) -> bool:
    """Whether a constant is a structure in which each call puts its own objects."""
    return type(constant) is TREEDEF and bool(emptied(constant, shells)[1])


def filled(treedef: Any, objects: tuple[Any, ...]) -> Any:
    """That structure with these objects in its slots."""
    return replaced(treedef, lambda held: objects[held.number] if type(held) is Slot else held)


def replaced(treedef: Any, change: Callable[[Any], Any]) -> Any:
    """The structure with other objects beside its leaves, as `change` says."""
    return rebuilt(treedef, lambda held: _changed(held, change))


def _changed(held: Any, change: Callable[[Any], Any]) -> Any:
    """The object itself, unless it or something in it is replaced. Objects of the program are not looked into."""
    other = change(held)
    if other is not held or is_value(held):
        return other
    cls = type(held)
    if issubclass(cls, tuple) or cls is list:
        items = [_changed(item, change) for item in held]
        same = all(a is b for a, b in zip(items, held))
        return held if same else items if cls is list else tuple.__new__(cls, items)
    if cls is dict:
        table = {key: _changed(item, change) for key, item in held.items()}
        return held if all(table[key] is item for key, item in held.items()) else table
    return _with_fields(held, change) if is_plain_instance(held) else held


def _with_fields(held: Any, change: Callable[[Any], Any]) -> Any:
    """A library's record of what its classes keep: its fields, once."""
    before = fields(held)
    after = {name: _changed(item, change) if type(item) in (tuple, list, dict) else change(item)
             for name, item in before.items()}
    if all(after[name] is item for name, item in before.items()):
        return held
    made = object.__new__(type(held))
    for name, item in after.items():
        object.__setattr__(made, name, item)
    return made
