"""What NumPy does of floating-point errors while ours computes: raise, so that a guard fails without a word, or ignore.

`np.errstate` would leave that behind for the program where a signal handler raises as its `__exit__` starts (about one
of 60 alarms that end a call whose guards use NumPy), so a function runs in a context of its own instead (PEP 567),
which C leaves, whatever is raised. NumPy keeps this state in a context variable.

    >>> raising(np.divide, 1.0, 0.0)
    Traceback (most recent call last):
    FloatingPointError: divide by zero encountered in divide
    >>> ignoring(np.divide, 1.0, 0.0)
    np.float64(inf)
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from numpy._core.umath import _extobj_contextvar, _make_extobj

T = TypeVar("T")
RAISING, IGNORING = _make_extobj(all="raise"), _make_extobj(all="ignore")


def raising(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`fn(*args, **kwargs)`; what NumPy would warn of raises FloatingPointError."""
    return copy_context().run(_under, RAISING, fn, args, kwargs)


def ignoring(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`fn(*args, **kwargs)`, in which NumPy warns of nothing."""
    return copy_context().run(_under, IGNORING, fn, args, kwargs)


def _under(state: Any, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    _extobj_contextvar.set(state)
    return fn(*args, **kwargs)


