"""Calls of NumPy's whose arguments change from call to call, as functions of what changes: see `sources.Host`.

    >>> Applied(np.arange, (Given(0),), {})(3)
    array([0, 1, 2])
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.numpy_errors import raising

# NumPy's functions that may call Python's `warnings`, which `errstate` does not hear: whatever they are given, or where
# an array has no items along an axis, or no more than `ddof`.
SAYING = frozenset({"corrcoef", "cov", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanquantile",
                    "nanstd", "nanvar", "polyfit"})
OF_ITEMS = frozenset({"average", "mean", "median", "percentile", "quantile", "std", "var"})
FIRST = -1
QUIET = {np.float16: 6e4, np.float32: 1e38}  # up to which Python number NumPy compares them without a warning


def quiet_below(number: Any) -> float:
    """See `Applied.quiet_below`."""
    return QUIET.get(type(number), 1e300)


def written(fn: Callable[..., Any], args: Any, kwargs: Any) -> list[np.ndarray]:
    """The arrays among its arguments that this call of NumPy's writes, whether or not that changes them now: it fails
    where they are read-only. It is tried on copies; `np.add.at` alone does not ask whether it may."""
    if isinstance(getattr(fn, "__self__", None), np.ufunc) and _own_name(fn) == "at":
        return [args[0]] if isinstance(args[0], np.ndarray) else []
    given = {id(a): a for a in arrays_in((*args, *kwargs.values())) if a.flags.writeable}

    def writes(locked: dict[int, Any]) -> bool:
        stand = {key: array.copy() for key, array in given.items()}
        for key in locked:
            stand[key].flags.writeable = False
        try:
            raising(fn, *standing(list(args), stand), **standing(kwargs, stand))
        except ValueError as error:
            return "read-only" in str(error)
        except ours(Exception):
            return False
        return False

    if not writes(given):
        return []
    return list(given.values()) if len(given) == 1 else [a for key, a in given.items() if writes({key: a})]


def arrays_in(tree: Any) -> Iterator[np.ndarray]:
    """The arrays in lists, tuples and dicts."""
    if isinstance(tree, np.ndarray):
        yield tree
    elif type(tree) in (tuple, list, dict):
        for part in tree.values() if type(tree) is dict else tree:
            yield from arrays_in(part)


def standing(tree: Any, stand: dict[int, Any]) -> Any:
    """Arguments with other arrays in place of theirs, by identity."""
    if type(tree) in (tuple, list):
        return type(tree)(standing(x, stand) for x in tree)
    if type(tree) is dict:
        return {k: standing(x, stand) for k, x in tree.items()}
    return stand.get(id(tree), tree)


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
    """`fn(*args, **kwargs)`, as a function of the Givens in there. `changes`: which Given the call changes (FIRST: the
    first argument, a constant), wherever it stands; a changed copy of it is the result. What NumPy would warn of
    raises."""

    fn: Callable[..., Any] = field(compare=False)
    args: Any = field(compare=False)
    kwargs: Any = field(compare=False)
    changes: int | None = None
    quiet_below: float = field(default=0, compare=False)  # up to which number its result, a number, is compared so
    says: bool = field(init=False, compare=False)  # `may_say` must be asked before each call
    run: Any = field(init=False, compare=False)  # `fn`, which raises what NumPy would warn of
    laid: Any = field(init=False, compare=False)  # see there

    def __post_init__(self) -> None:
        name, silent = _own_name(self.fn), self.fn is operator.getitem or type(self.fn) in SILENT
        known = (("says", name in SAYING | OF_ITEMS), ("run", self.fn if silent else partial(raising, self.fn)),
                 ("laid", None if holds_given(self.kwargs) else laid(tuple(self.args))))
        for what, found in known:
            object.__setattr__(self, what, found)

    def __call__(self, *given: Any) -> Any:
        changed: Any = None
        if self.changes is not None and self.changes != FIRST:
            changed = given[self.changes].copy()
            given = (*given[:self.changes], changed, *given[self.changes + 1:])
        if self.laid is not None:  # the usual case, in a part of the time
            args, kwargs = self.laid(given), self.kwargs
        else:
            args, kwargs = put(self.args, given), put(self.kwargs, given)
        if self.says and may_say(self.fn, args, kwargs):
            raise ValueError(f"{_name(self.fn)} may warn of these arguments")
        if self.changes == FIRST:
            changed = args[0].copy()
            args = (changed, *args[1:])
        found = self.run(*args, **kwargs)
        return found if changed is None else changed

    def __repr__(self) -> str:
        changes = "" if self.changes is None else "!" if self.changes == FIRST else f"!{self.changes}"
        return f"{_name(self.fn)}{changes}{described((self.args, self.kwargs))}"


SILENT = frozenset({Applied, operator.attrgetter})  # of what they call, NumPy warns of nothing, or it raises there


def laid(args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
    """`put` for these arguments, without a walk through them; None where there are things among them that hold others:
    each call has its own lists.

        >>> laid((Given(1), "a", Given(0)))((1, 2))
        (2, 'a', 1)
    """
    places = [arg.index if isinstance(arg, Given) else None for arg in args]
    if places == [*range(len(args))]:
        return tuple
    if any(type(arg) in (tuple, list, dict, slice) for arg in args):
        return None
    order = [i if place is None else len(args) + place for i, place in enumerate(places)]
    taken = operator.itemgetter(*order, 0)  # of one place alone it would give no tuple
    return lambda given: taken(args + given)[:-1]


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
        return type(tree)([put(x, given) for x in tree])
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
