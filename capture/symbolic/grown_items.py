"""What a list holds that loops of the Graph have filled, as data (see `kinds.grown_lists`).

A list's `unseen` front may be a `Front`, whose parts are items and `Run`s: what all rounds of a loop appended, as rows
of stacked arrays. `spec_of` says what replacement code needs to know to make items of them.

    outs.append((h, i))     # Run(length, (Many(tuple, (Leaf(0), Leaf(1, int, 0, 9))),), [all h, all i])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.symbolic.values import ArrayV, Const, ListV, Value


class Front(ABC):
    """The `unseen` items of a new list that loops of the Graph have filled: called, it gives them one by one."""

    @property
    @abstractmethod
    def parts(self) -> list[Any]:
        """The items, and what loops appended in runs."""

    @abstractmethod
    def __call__(self) -> list[Any]:
        """All items; the entry serves one length from then on."""

    @abstractmethod
    def count(self, v: ListV) -> Value:
        """How many items the list `v` has, of which this is the front."""

    @abstractmethod
    def held(self) -> list[Any]:
        """The Values that it keeps alive."""


@dataclass(frozen=True)
class Leaf:
    """An array or number of a round: the row of one of the stacks. number: the type of a number, which lies between
    `low` and `high`."""

    index: int
    number: type | None = None
    low: int = field(default=0, compare=False)
    high: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Fixed:
    """What is the same in each round."""

    value: Value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed):
            return False
        a, b = self.value, other.value
        same = isinstance(a, Const) and isinstance(b, Const) and type(a.value) is type(b.value)
        return a is b or same and repr(a.value) == repr(b.value)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class Many:
    """A tuple, list or dict that a round made."""

    cls: type
    parts: tuple[Any, ...]
    keys: tuple[Any, ...] = ()


@dataclass(eq=False)
class Run:
    """What the rounds of a loop appended: `shapes` in each, whose leaves are rows of the `stacks`."""

    length: Any
    shapes: tuple[Any, ...]
    stacks: list[ArrayV]

    def held(self) -> list[Any]:
        """The Values that it keeps alive."""
        fixed: list[Any] = []
        for shape in self.shapes:
            spec_of(shape, fixed)
        return [*self.stacks, *fixed]


def leaf_count(shape: Any) -> int:
    """How many arrays and numbers a shape has."""
    return isinstance(shape, Leaf) or sum(map(leaf_count, getattr(shape, "parts", ())))


def parts_of(v: ListV) -> list[Any]:
    """All that a list holds, items and Runs."""
    return [*v.unseen.parts, *v.appended] if isinstance(v.unseen, Front) else list(v.items)


def spec_of(shape: Any, fixed: list[Value]) -> Any:
    """A shape as `runtime.run_items` takes it; the Values that are the same in each round are added to `fixed`."""
    if isinstance(shape, Leaf):
        return ("leaf", shape.index)
    if isinstance(shape, Fixed):
        fixed.append(shape.value)
        return ("fixed", len(fixed) - 1)
    return (shape.cls, shape.keys, tuple(spec_of(part, fixed) for part in shape.parts))


def kinds_of(run: Run) -> tuple[Any, ...]:
    """Of each stack the type of the numbers that its rows are; None for arrays."""
    found: list[Any] = [None] * len(run.stacks)

    def note(shape: Any) -> None:
        if isinstance(shape, Leaf):
            found[shape.index] = shape.number
        for part in getattr(shape, "parts", ()):
            note(part)

    for shape in run.shapes:
        note(shape)
    return tuple(found)
