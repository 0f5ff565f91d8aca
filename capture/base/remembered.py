"""`remembered`: what is computed of a class or a function once, for as long as that lives.

`functools.cache` would keep every class of the program alive, and would hash it, which is user code where
the metaclass says so. Here objects are known by identity and referred to weakly.

    >>> @remembered
    ... def depth(cls): return len(cls.__mro__)
    >>> depth(bool)
    3
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def remembered(compute: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """`compute`, asked once for each object; objects that cannot be referred to weakly are kept."""
    known: dict[int, tuple[Callable[[], Any], Answer]] = {}

    @functools.wraps(compute)
    def recall(obj: Any) -> Answer:
        found = known.get(id(obj))  # which goes when the object does, before another can have its id
        if found is not None:
            return found[1]
        answer = compute(obj)
        known[id(obj)] = reference(obj, known), answer
        return answer

    return recall


def reference(obj: Any, known: dict[int, Any]) -> Callable[[], Any]:
    """A weak reference to `obj`, whose entry in `known`, under its id, goes when it dies."""
    try:
        return weakref.ref(obj, functools.partial(_forget, known, id(obj)))
    except TypeError:
        return lambda: obj


def _forget(known: dict[int, Any], key: int, _: weakref.ref[Any]) -> None:
    known.pop(key, None)
