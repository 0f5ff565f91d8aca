"""A lock for small tables that threads share, which neither a fork nor a finalizer turns into a trap.

In a forked child the thread that held the lock does not exist, so the child starts with a new one. A garbage
collection may call back into the code that holds the lock, so the thread that has it gets it again.

    >>> table = ForkedLock()
    >>> with table():
    ...     pass
"""

from __future__ import annotations

import os
import threading


class ForkedLock:
    """Call it for the lock of this process; `with` releases the one that it took, whatever happens in between."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __call__(self) -> threading.RLock:
        return self._lock
