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
    """How far the changes have been looked at; the Values that have escaped, by id."""

    looked: int = 0
    escaped: dict[int, Any] = field(default_factory=dict)

    def changed(self, effects: Effects) -> bool:
        """Whether something has changed, since this was asked last, that existing code can read."""
        new = [v for v in effects.mutated[self.looked:] if _existed(v) or id(v) in self.escaped]
        self.looked = len(effects.mutated)
        for v in new:
            self._follow([*_held(v)] if v is not None else [*effects.stored(), *effects.operands()])
        return bool(new)

    def _follow(self, todo: list[Any]) -> None:
        seen: set[int] = set()
        while todo:
            at = todo.pop()
            if id(at) in seen or is_value(at) and (_existed(at) or is_lazy(at)):
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
