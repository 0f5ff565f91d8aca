"""Sets of which not all is known, as Values have them: what was added and taken out, one after the other.

    seen.discard(n - 3)         # made again after the Graph, as it stands
    seen.add(n)
    if k in seen: return x      # guard: what Python finds in the set that the call was given, these changes made

Whether an element is there, and how many there are, Python computes in each call. The order of changes decides the
order of a set's elements, so that all of them are kept.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import as_grown
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.keyed_tables import ChangingKey, as_constant

SHRUNK: Any = (((),), ("difference_update", "tuple"))  # in a log: what makes a set let go of places, as a change by all


@dataclass(frozen=True, eq=False)
class Members:
    """given: what there was, the set of the call or literals. log: keys, and whether each was added, in that order."""

    given: ScalarV | Const
    log: tuple[tuple[Any, bool], ...] = ()
    emptied: bool = False  # whether all elements of the set of the call were taken out first

    def then(self, key: Any, added: bool) -> Members:
        return self.after((key, added))

    def after(self, change: tuple[Any, Any]) -> Members:
        return replace(self, log=(*self.log, change))

    def has(self, key: Any) -> Value:
        """Whether this key is there now."""
        if not self.log:
            return dynamic_scalars.host("contains", operator.contains, self.given, _asked(key))
        return dynamic_scalars.host("holds", _holds, self.given, self._added(), _asked(key), *self._keys())

    def count(self) -> Value:
        """How many elements there are now."""
        return dynamic_scalars.host("counted", _counted, self.given, self._added(), *self._keys())

    def _added(self) -> Const:
        return Const(tuple(change[1] for change in self._single()))

    def _keys(self) -> list[Any]:
        return [_asked(key) for key, _ in self._single()]

    def _single(self) -> Iterator[tuple[Any, bool]]:
        """The changes by one key."""
        return (change for change in self.log if change is not SHRUNK)

    def applied(self, elements: Any) -> Any:
        """The elements that there are now, of these: the entry serves the keys of this call then."""
        if not self.log and not self.emptied:
            return elements
        made = set() if self.emptied else as_grown(elements)
        for change in self.log:
            if change is SHRUNK:
                made.difference_update(())
            else:
                (made.add if change[1] else made.discard)(as_constant(change[0]))
        return made

    def constants(self) -> tuple[tuple[Any, bool], ...] | None:
        """The log of a set that is looked at whole now; None where that is not all that was done to it."""
        return None if self.emptied else tuple(
            change if change is SHRUNK else (as_constant(change[0]), change[1]) for change in self.log)


def _asked(key: Any) -> ScalarV | Const:
    return key.asked if type(key) is ChangingKey else Const(key)


def _holds(elements: Any, added: tuple[bool, ...], key: Any, *keys: Any) -> bool:
    """Whether `key` is among these, once `keys` were added or taken out."""
    return next((there for k, there in zip(reversed(keys), reversed(added)) if k == key), key in elements)


def _counted(elements: Any, added: tuple[bool, ...], *keys: Any) -> int:
    """How many these are then."""
    now = dict(zip(keys, added))
    return len(elements) + sum(there - (key in elements) for key, there in now.items())
