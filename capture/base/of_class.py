"""`of_class`: the things of one class among others, as a type checker knows them from then on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def of_class(cls: type[T], things: Iterable[Any]) -> Iterator[T]:
    """Those of a class, in their order.

    >>> list(of_class(int, [1, "a", 2.5, 3]))
    [1, 3]
    """
    return (thing for thing in things if isinstance(thing, cls))
