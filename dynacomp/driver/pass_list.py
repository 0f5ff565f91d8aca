"""The list of passes as a value: which passes run over which of a region's three forms, in order.

    captured    the Graph of the JAX functions that the program called
    primitive   the Graph of primitives that it lowers to: what `lowering.passes.pipeline` lists
    kernels     the Schedule: fused loop kernels, templates and calls of XLA over planned buffers

A `Passes` never changes: `insert`, `replace` and `remove` give another one. Whoever compiles takes it out of the
options, or else `current()`, the process's own.

    >>> DEFAULT.remove("simplify").insert(lambda graph: graph, name="mine", before="dead_code").names[-3:]
    ('turn_products', 'mine', 'dead_code')
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Union

from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.fuse.schedule import Schedule
from dynacomp.lowering.passes.pipeline import PASSES
from dynacomp.lowering.passes.recompute import BUDGET, recompute

Form = Union[Graph, Schedule]
CAPTURED, PRIMITIVE, KERNELS = LEVELS = ("captured", "primitive", "kernels")


@dataclass(frozen=True)
class Pass:
    """One row: `run` takes one form of a region and returns another that computes the same (as much as its author
    wants the same). exact: whether it also runs where numerics are to be "exact"."""

    name: str
    run: Callable[[Any], Any]
    level: str = PRIMITIVE
    exact: bool = True

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"pass {self.name!r}: level {self.level!r} is none of {', '.join(LEVELS)}")
        if not isinstance(self.name, str) or not callable(self.run):
            raise TypeError(f"a pass is a name and a function, not {self.name!r} and {self.run!r}")
        hash(self.run)  # what passes there are is part of a key: TypeError at once


@dataclass(frozen=True)
class Passes:
    """Passes in order; those of one level run one after another. Hashable: it is part of what an entry is known by."""

    rows: tuple[Pass, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.rows)

    def at(self, level: str) -> tuple[Pass, ...]:
        """The passes of one level, in order."""
        return tuple(p for p in self.rows if p.level == level)

    def insert(self, run: Callable[[Any], Any], *, name: str = "", level: str = "", before: str = "",
               after: str = "") -> Passes:
        """With another pass: before or after the one of that name, else after all of its level.

        name: the function's own where it is not given. level: that of the neighbour, else "primitive". ValueError
        where the name is taken, or no pass is called as `before` or `after` say.
        """
        if before and after:
            raise ValueError("insert a pass before or after another, not both")
        at = self._index(before or after) if before or after else None
        neighbour = None if at is None else self.rows[at]
        made = Pass(name or _name_of(run), run, level or (neighbour.level if neighbour else PRIMITIVE))
        if neighbour is not None and neighbour.level != made.level:
            raise ValueError(f"{neighbour.name!r} is a pass over the {neighbour.level} form, not the {made.level} one")
        if made.name in self.names:
            raise ValueError(f"there is a pass called {made.name!r} already: replace it, or give another name")
        place = len(self.rows) if at is None else at + bool(after)
        return Passes((*self.rows[:place], made, *self.rows[place:]))

    def replace(self, name: str, run: Callable[[Any], Any]) -> Passes:
        """With another function under the same name, in the same place."""
        at = self._index(name)
        return Passes((*self.rows[:at], replace(self.rows[at], run=run), *self.rows[at + 1:]))

    def remove(self, name: str) -> Passes:
        """Without the pass of that name."""
        at = self._index(name)
        return Passes((*self.rows[:at], *self.rows[at + 1:]))

    def _index(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        close = difflib.get_close_matches(str(name), self.names, 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"no pass is called {name!r}{hint}; there are: {', '.join(self.names) or 'none'}")

    def __str__(self) -> str:
        return "\n".join(f"{p.level:<10}{p.name}" for p in self.rows)


def _name_of(run: Any) -> str:
    name = getattr(run, "__name__", "")
    if not name or name == "<lambda>":
        raise ValueError(f"a pass needs a name: insert(..., name=...) for {run!r}")
    return str(name)


INEXACT = ("fuse_attention", "add_to_many")  # sums in another order
DEFAULT = Passes(tuple(Pass(run.__name__, run, exact=run.__name__ not in INEXACT) for run in PASSES))


@functools.lru_cache(maxsize=64)
def within(passes: Passes, budget: float, at_hand: tuple[tuple[str, int], ...] = ()) -> Passes:
    """The passes, with `recompute` to a `memory_budget`, for unknown sizes whose values `at_hand` says by name."""
    plain = budget == BUDGET and not at_hand
    if plain or Pass(recompute.__name__, recompute) not in passes.rows:
        return passes
    return passes.replace(recompute.__name__, functools.partial(recompute, budget=budget, at_hand=at_hand))


_current = DEFAULT


def current() -> Passes:
    """The passes of everything whose options name none."""
    return _current


def set_current(listed: Passes) -> None:
    """`passes.set` without what goes with it: compiled entries know nothing of this."""
    global _current
    _current = listed
