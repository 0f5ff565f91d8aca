"""Warnings that JAX gives while ours has it trace, and that nobody is to see: plain Python gives none there, or has
given its own already.

    with saying_nothing(): ...          # none of this thread's
    with saying_nothing(OF_SIZES): ...  # none of those that only a size that JAX does not know brings about
    with nothing_hidden(): ...          # the filters are the program's own, for who reads them meanwhile
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Where JAX makes an array of a size, of the dtype that an index of NumPy has (`x[np.array([0, -1])]`).
OF_SIZES = re.compile(r"jax\._src\.numpy\.indexing$")


@contextlib.contextmanager
def saying_nothing(places: re.Pattern[str] | None = None) -> Iterator[None]:
    """Within the block no warning of this thread is shown that is said of a module so named; of any, if None.
    `warnings.catch_warnings` would be every thread's, and would make others be shown a second time."""
    mine = _OfThread(threading.get_ident())
    hidden = ("ignore", mine, Warning, places, 0)
    filters: Any = warnings.filters
    filters.insert(0, hidden)
    try:
        yield
    finally:
        mine.thread = None  # where another thread has copied the filters meanwhile
        if hidden in filters:
            filters.remove(hidden)


@contextlib.contextmanager
def nothing_hidden() -> Iterator[list[Any]]:
    """Within the block `warnings.filters` are as the compiled code will find them: what a guard asks of them holds."""
    filters: Any = warnings.filters
    hidden = [item for item in filters if isinstance(item[1], _OfThread) and item[1].thread == threading.get_ident()]
    filters[:] = [item for item in filters if item not in hidden]
    try:
        yield filters
    finally:
        filters[:0] = hidden


@dataclass(eq=False)
class _OfThread:
    """In a warning's filter, in place of a pattern of its text: one thread's warnings match, while it is set."""

    thread: int | None

    def match(self, text: str) -> bool:
        return self.thread == threading.get_ident()
