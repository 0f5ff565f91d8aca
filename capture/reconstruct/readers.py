"""Python's numbers out of arrays without dimensions, at run time: what reads each kind fastest.

`float(loss)`, `int(n)` and `if done:` of an array that a Graph has computed are read where they lie; asked by way of
the array's class, they take ten times as long (see `_native/read_scalar.c`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture import _native

READERS: dict[type, Callable[[Any], Any]] = {
    bool: _native.read_bool, int: _native.read_int, float: _native.read_float}


def reader(kind: type) -> Callable[[Any], Any]:
    """What gives `kind(array)`.

        >>> reader(complex)
        <class 'complex'>
    """
    return READERS.get(kind, kind)
