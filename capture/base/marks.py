"""What is remembered of an object from one call to the next, without keeping it alive.

    mark = Mark(optimiser)
    mark == Mark(optimiser)         # True: the same object
    mark == Mark(another)           # False, whatever its class says of `==`; False once the object is gone, too
"""

from __future__ import annotations

import weakref
from typing import Any


class Mark:
    """An object known by its identity. One that takes no weak references is known by its address, which another
    object may have later: both are then guarded by what they are."""

    __slots__ = ("_address", "_ref")

    def __init__(self, obj: Any) -> None:
        self._address = id(obj)
        self._ref = weakref.ref(obj) if type(obj).__weakrefoffset__ else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mark) and other._address == self._address and self._is_alive() and other._is_alive()

    def __hash__(self) -> int:
        return self._address

    def _is_alive(self) -> bool:
        return self._ref is None or self._ref() is not None
