"""Calls of NumPy's whose arguments change from call to call, as functions of what changes: see `sources.Host`.

    >>> Applied(np.arange, (Given(0),), {})(3)
    array([0, 1, 2])
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynacomp.capture.base.numpy_errors import raising

# NumPy's functions that may call Python's `warnings`, which `errstate` does not hear: whatever they are given, or where
# an array has no items along an axis, or no more than `ddof`.
SAYING = frozenset({"corrcoef", "cov", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanquantile",
                    "nanstd", "nanvar", "polyfit"})
OF_ITEMS = frozenset({"average", "mean", "median", "percentile", "quantile", "std", "var"})
QUIET = {np.float16: 6e4, np.float32: 1e38}  # up to which Python number NumPy compares them without a warning


def quiet_below(number: Any) -> float:
    """See `Applied.quiet_below`."""
    return QUIET.get(type(number), 1e300)


def may_say(fn: Any, args: Any, kwargs: Any) -> bool:
    """Whether this call of NumPy's may give a warning that is none of arithmetic."""
    name = _own_name(fn)
    return name in SAYING or name in OF_ITEMS and min(np.shape(args[0]), default=1) <= int(kwargs.get("ddof", 0))


@dataclass(frozen=True)
class Given:
    """The place of one of the things that change."""

    index: int


@dataclass(frozen=True)
class Applied:
    """`fn(*args, **kwargs)`, as a function of the Givens in there. `stores`: the first argument is changed; a changed
    copy of it is the result. What NumPy would warn of raises."""

    fn: Callable[..., Any] = field(compare=False)
    args: Any = field(compare=False)
    kwargs: Any = field(compare=False)
    stores: bool = False
    quiet_below: float = field(default=0, compare=False)  # up to which number its result, a number, is compared so
    rest: Any = field(init=False, compare=False)  # what follows the Givens in `args`; None where some are elsewhere

    def __post_init__(self) -> None:
        others = (i for i, arg in enumerate(self.args) if not isinstance(arg, Given) or arg.index != i)
        n = next(others, len(self.args))
        rest = tuple(self.args[n:])
        object.__setattr__(self, "rest", None if self.stores or holds_given((rest, self.kwargs)) else rest)

    def __call__(self, *given: Any) -> Any:
        if self.rest is not None and _own_name(self.fn) not in OF_ITEMS:  # the usual case, in half of the time
            return raising(self.fn, *given, *self.rest, **self.kwargs)
        args, kwargs = put(self.args, given), put(self.kwargs, given)
        if may_say(self.fn, args, kwargs):
            raise ValueError(f"{_name(self.fn)} may warn of these arguments")
        if self.stores:
            args = (args[0].copy(), *args[1:])
        found = raising(self.fn, *args, **kwargs)
        return args[0] if self.stores else found

    def __repr__(self) -> str:
        return f"{_name(self.fn)}{'!' if self.stores else ''}{described((self.args, self.kwargs))}"


def holds_given(tree: Any) -> bool:
    """Whether something that changes is in there."""
    if type(tree) is slice:
        tree = (tree.start, tree.stop, tree.step)
    if type(tree) is dict:
        tree = tuple(tree.values())
    return isinstance(tree, Given) or type(tree) in (tuple, list) and any(map(holds_given, tree))


def put(tree: Any, given: tuple[Any, ...]) -> Any:
    """Arguments with what changes in its places."""
    if isinstance(tree, Given):
        return given[tree.index]
    if type(tree) in (tuple, list):
        return type(tree)(put(x, given) for x in tree)
    if type(tree) is dict:
        return {k: put(x, given) for k, x in tree.items()}
    if type(tree) is slice:
        return slice(put(tree.start, given), put(tree.stop, given), put(tree.step, given))
    return tree


def described(tree: Any) -> str:
    """A text that tells such arguments from others."""
    if isinstance(tree, np.ndarray):
        return f"{tree.dtype}{tree.shape}:{hashlib.sha256(tree.tobytes()).hexdigest()[:16]}"
    if type(tree) in (tuple, list):
        return f"{type(tree).__name__}({', '.join(map(described, tree))})"
    if type(tree) is dict:
        return ", ".join(f"{k}={described(x)}" for k, x in tree.items())
    if type(tree) is slice:
        return f"{described(tree.start)}:{described(tree.stop)}:{described(tree.step)}"
    return f"${tree.index}" if isinstance(tree, Given) else repr(tree)


def _name(fn: Any) -> str:
    owner, own = getattr(fn, "__self__", None), _own_name(fn)
    return f"{owner.__name__}.{own}" if isinstance(owner, np.ufunc) else f"{getattr(fn, '__module__', '')}.{own}"


def _own_name(fn: Any) -> str:
    return getattr(fn, "name", None) or getattr(fn, "__name__", None) or repr(fn)
