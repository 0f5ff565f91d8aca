"""Rows of tables, functions `row(cap, *args, **kwargs)`: which calls they have parameters for.

    >>> fits(lambda cap, x, y=None: x, (1, 2), {}), fits(lambda cap, x, y=None: x, (1, 2, 3), {})
    (True, False)
"""

from __future__ import annotations

import inspect
import types
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


def named(row: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of `fn` with the names that it has for them, where the row takes them by name alone."""
    _, most = arity(row)
    if not isinstance(fn, types.FunctionType) or len(args) <= most:
        return list(args), dict(kwargs)
    names = [p.name for p in signature(fn).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    rest = dict(zip(names[int(most):], args[int(most):]))
    if len(args) > len(names) or rest.keys() & kwargs.keys():
        return list(args), dict(kwargs)
    return list(args[:int(most)]), {**kwargs, **rest}


@remembered
def arity(row: Any) -> tuple[float, float]:
    """How many arguments without names a row takes after `cap`, at least and at most."""
    found = signature(row).parameters.values()
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    least = sum(p.default is p.empty for p in plain)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in found):
        return inf, inf
    return least, inf if any(p.kind is p.VAR_POSITIONAL for p in found) else len(plain)
