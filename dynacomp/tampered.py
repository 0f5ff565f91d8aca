"""Whether the program has replaced builtins that dynacomp itself runs on.

A test that mocks `int`, a program that patches `len`: whatever calls the builtin while it is replaced gets the
other one, the compiler too. Frames that would be captured meanwhile run as plain Python. (What only does input
and output may be replaced: `print`, `open`, ...)

    >>> builtins_replaced()
    False
"""

from __future__ import annotations

import builtins
import operator

FREE = {"print", "input", "open", "breakpoint", "help", "exit", "quit", "copyright", "credits", "license"}
OURS = {"__build_class__", "__import__"}
NAMES = tuple(n for n in vars(builtins) if n not in FREE and (n[0] != "_" or n in OURS))
_TABLE, _read, _is, _all, _map, _missing = (
    vars(builtins), operator.itemgetter(*NAMES), operator.is_, all, map, KeyError)  # while they are what they were
_WERE = _read(_TABLE)


def builtins_replaced() -> bool:
    """True while a builtin of NAMES is another object than when dynacomp was imported, or gone."""
    try:
        return not _all(_map(_is, _read(_TABLE), _WERE))
    except _missing:
        return True
