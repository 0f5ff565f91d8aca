"""A table whose keys are objects by identity, held weakly where Python can.

    >>> table = IdentityTable()
    >>> table[len] = "length"
    >>> table.get(len), len in table, max in table
    ('length', True, False)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class IdentityTable:
    """`get`, `in` and item assignment; an entry goes with its key."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        at, forget = id(key), self._rows.pop
        try:
            held: Any = weakref.ref(key, lambda _: forget(at, None))
        except TypeError:
            held = lambda: key  # it lives as long as the table
        self._rows[at] = (held, value)

    def get(self, key: Any) -> Any:
        found = self._rows.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def setdefault(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is kept for `key`, of `make()` at first."""
        found = self.get(key)
        if found is None:
            self[key] = found = make()
        return found

    def clear(self) -> None:
        """Forgets every entry."""
        self._rows.clear()

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None
