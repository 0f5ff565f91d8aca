"""What code that existed before the call can read of what the captured code changes: is an answer of it still right?

It reads what existed, and of what the captured code has made, that which it has stored there:

    kept = [1]                  # made: nobody else can read it
    REGISTRY["last"] = kept     # what existed has changed, and `kept` has escaped
    kept.append(2)              # so this, too, is a change that a function may see that looks into REGISTRY
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.symbolic.effects import Effects
from dynacomp.capture.values.questions import is_lazy, is_value

NOT_MADE = ("real", "globals", "code", "source", "cls")  # parts of Values that are the program's own objects


@dataclass(eq=False)
class Escapes:
    """How far the changes have been looked at; the Values that have escaped, by id; those that have changed since and
    may have got others, when the last of them did. What these hold is looked at once it matters."""

    looked: int = 0
    escaped: dict[int, Any] = field(default_factory=dict)
    holders: dict[int, Any] = field(default_factory=dict)
    held_at: int = 0

    def changed(self, effects: Effects) -> bool:
        """Whether something has changed, since this was asked last, that existing code can read."""
        found, doubtful = False, []
        new = slice(self.looked, len(effects.mutated))
        for v, serial in zip(effects.mutated[new], effects.serials[new], strict=True):
            if _existed(v) or id(v) in self.escaped:
                found, self.holders[id(v)], self.held_at = True, v, serial
            elif v.serial < self.held_at:  # made before something changed that it may be stored in
                doubtful.append((v, serial))
        self.looked = new.stop
        if doubtful and not found:
            self._follow(effects)
            doubtful = [(v, serial) for v, serial in doubtful if id(v) in self.escaped]
            found = bool(doubtful)
            self.holders.update((id(v), v) for v, _ in doubtful)
        self.held_at = max((self.held_at, *(serial for _, serial in doubtful)))
        return found

    def _follow(self, effects: Effects) -> None:
        """Finds what the holders have got."""
        todo = [part for v in self.holders.values() if v is not None for part in _held(v)]
        if id(None) in self.holders:
            todo += [*effects.stored(), *effects.operands()]
        self.holders.clear()
        seen: set[int] = set()
        while todo:
            at = todo.pop()
            if id(at) in seen or id(at) in self.escaped or is_value(at) and (_existed(at) or is_lazy(at)):
                continue
            seen.add(id(at))
            todo.extend(_held(at))
            if is_value(at):
                self.escaped[id(at)] = at


def _existed(v: Any) -> bool:
    """Whether a Value that has changed was there before the call; None stands for a class or a module."""
    return v is None or getattr(v, "real", None) is not None


def _held(at: Any) -> Iterable[Any]:
    """What a Value holds, or a part of one."""
    if is_value(at):
        return [part for name, part in vars(at).items() if name not in NOT_MADE]
    if type(at) is dict:
        return (*at, *at.values())
    return at if type(at) in (tuple, list, set, frozenset) else ()
