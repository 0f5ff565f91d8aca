"""Rows of tables, functions `row(cap, *args, **kwargs)`: which calls they have parameters for.

    >>> fits(lambda cap, x, y=None: x, (1, 2), {}), fits(lambda cap, x, y=None: x, (1, 2, 3), {})
    (True, False)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from dynacomp.capture.base.remembered import remembered

signature = remembered(inspect.signature)


def fits(row: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether `row(cap, *args, **kwargs)` is a call that Python lets through."""
    least, most = arity(row)
    if not kwargs and least <= len(args) <= most:  # nearly all
        return True
    try:
        signature(row).bind(None, *args, **kwargs)
    except TypeError:
        return False
    return True


@remembered
def arity(row: Any) -> tuple[float, float]:
    """How many arguments without names a row takes after `cap`, at least and at most."""
    found = signature(row).parameters.values()
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    least = sum(p.default is p.empty for p in plain)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in found):
        return inf, inf
    return least, inf if any(p.kind is p.VAR_POSITIONAL for p in found) else len(plain)
