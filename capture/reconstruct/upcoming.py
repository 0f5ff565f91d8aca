"""Built-in iterators that somebody else has made, at run time: what they will give, and taking it (see
existing_iterators.py)."""

from __future__ import annotations

from typing import Any

from dynacomp.capture._native import upcoming
from dynacomp.capture.base.interrupts import suppressing


def item(it: Any, after: int) -> Any:
    """The item that comes after so many others."""
    (found,) = upcoming(it, after)
    return found


def reduced(it: Any) -> Any:
    """What a zip, map, filter or enumerate is made of."""
    return it.__reduce__()


def take(it: Any, items: int, ended: bool) -> None:
    """Takes so many items off an iterator, and asks it for one more where the code has seen its end."""
    for _ in range(items):
        next(it)
    if ended:
        next(it, None)


def fail(it: Any) -> None:
    """Asks an iterator over a dict that has grown or shrunk for an item: it refuses, now and later."""
    with suppressing(RuntimeError):
        next(it)
