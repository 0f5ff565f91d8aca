"""Dicts whose keys are names, and whether something has asked in which order they stand: a dict that the call was
given, or the attributes of an object whose `__dict__` the program has.

JAX takes dicts apart by their sorted keys and puts them together again in that order, as frameworks do with modules:
after the first training step parameters have another order than they were made with. What asks for a name, or goes
through all names in no order that matters, depends on the names alone.

    >>> asked = []
    >>> attributes = ByName({"b": 1, "a": 2}, lambda: asked.append("order"))
    >>> attributes["a"], "c" in attributes, len(attributes), unordered(attributes), asked
    (2, False, 2, ['b', 'a'], [])
    >>> list(attributes), asked
    (['b', 'a'], ['order'])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ByName(dict[str, Any]):
    """`note` is called once: when something first goes through these in their order. Once all that there were are taken
    out, the order is the program's own doing. gone: what was taken out one by one, if only for a while."""

    def __init__(self, found: dict[str, Any], note: Callable[[], None]) -> None:
        super().__init__(found)
        self.note, self.is_open, self.cleared = note, True, False
        self.gone: set[str] = set()

    def ask(self) -> None:
        """Must be called before anything rests on the order."""
        if self.is_open and not self.cleared:
            self.is_open = False
            self.note()

    def clear(self) -> None:
        self.cleared = self.cleared or self.is_open
        super().clear()

    def pop(self, name: str, *default: Any) -> Any:
        self.gone.add(name)
        return super().pop(name, *default)

    def __delitem__(self, name: str) -> None:
        self.gone.add(name)
        super().__delitem__(name)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def known(self) -> Any:
        """The values, for who does not rest on their order."""
        return dict.values(self)


def _in_order(name: str) -> Callable[..., Any]:
    """A method of dict that gives its keys in their order."""
    def method(self: ByName, *args: Any) -> Any:
        self.ask()
        return getattr(dict, name)(self, *args)
    return method


for _name in ("__iter__", "__reversed__", "__eq__", "__or__", "__ror__", "keys", "values", "items", "popitem", "copy"):
    setattr(ByName, _name, _in_order(_name))


def unordered(table: dict[Any, Any]) -> list[Any]:
    """The keys of a table, for who does not rest on their order."""
    return list(dict.keys(table))


def in_any_order(table: dict[Any, Any]) -> list[Any]:
    """The keys of a table, for who would do the same in another order."""
    return unordered(table) if is_unordered(table) else list(table)


def is_arranged(table: Any) -> bool:
    """Whether all that there were are taken out, so that the order now is the program's."""
    return type(table) is ByName and table.cleared


def is_unordered(table: Any) -> bool:
    """Whether nothing has asked yet in which order these stand, and that is still the one in which they were given."""
    return type(table) is ByName and table.is_open and not table.cleared
