"""What a list holds that loops of the Graph have filled, as data (see `rows.grown_lists`).

A list's `front` is a `Front`, whose parts are items and `Run`s: what all rounds of a loop appended, as rows
of stacked arrays. A `Shape`'s `spec` says what replacement code needs to know to make items of them.

    outs.append((h, i))     # Run(length, (Many(tuple, (Leaf(0), Leaf(1, int, 0, 9))),), [all h, all i])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeGuard, TypeVar

from dynacomp.capture.values.constant import holds, is_exactly
from dynacomp.capture.values.containers import DictV, ListV, RowsV, TupleV
from dynacomp.capture.values.value import Value

T = TypeVar("T")


class Front(ABC):
    """The items of a new list that loops of the Graph fill: called, it gives them one by one. settled: the loops have
    ended, else the body of one runs. grows: whether items may be put behind the others."""

    settled: ClassVar[bool]
    grows: bool = True

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
    def item(self, v: ListV, index: int) -> Value | None:
        """`v[index]`, of the list whose front it is; None where all items have to be looked at."""

    @abstractmethod
    def held(self) -> list[Any]:
        """The Values that it keeps alive."""


class Shape(ABC):
    """What a round made: a tree whose leaves are arrays and numbers."""

    @abstractmethod
    def fold(self, leaf: Callable[[Leaf], T], fixed: Callable[[Fixed], T],
             many: Callable[[Many, Iterator[T]], T]) -> T:
        """`leaf(self)`, `fixed(self)`, or `many(self, ...)` of what its parts give: whichever it is."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """Its leaves, in order."""

    @abstractmethod
    def map(self, fn: Callable[[Leaf], Leaf]) -> Any:
        """The same with `fn(leaf)` in place of each leaf."""

    @abstractmethod
    def spec(self, fixed: list[Value]) -> Any:
        """As `runtime.run_items` takes it; the Values that are the same in each round are added to `fixed`."""


@dataclass(frozen=True)
class Leaf(Shape):
    """An array or number of a round: the row of one of the stacks. number: the type of a number, which lies between
    `low` and `high`. The stack of numbers that Python knows before the call is no array: a ScalarV, their tuple."""

    index: int
    number: type | None = None
    low: int = field(default=0, compare=False)
    high: int = field(default=1, compare=False)

    def fold(self, leaf: Callable[[Leaf], T], fixed: Callable[[Fixed], T],
             many: Callable[[Many, Iterator[T]], T]) -> T:
        return leaf(self)

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def map(self, fn: Callable[[Leaf], Leaf]) -> Leaf:
        return fn(self)

    def spec(self, fixed: list[Value]) -> Any:
        return "leaf", self.index


@dataclass(frozen=True)
class Fixed(Shape):
    """What is the same in each round: one object, or equal constants."""

    value: Value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed):
            return False
        a, b = self.value, other.value
        return a is b or holds(a, object) and is_exactly(b, type(a.value)) and repr(a.value) == repr(b.value)

    def __hash__(self) -> int:
        return 0

    def fold(self, leaf: Callable[[Leaf], T], fixed: Callable[[Fixed], T],
             many: Callable[[Many, Iterator[T]], T]) -> T:
        return fixed(self)

    def leaves(self) -> Iterator[Leaf]:
        yield from ()

    def map(self, fn: Callable[[Leaf], Leaf]) -> Fixed:
        return self

    def spec(self, fixed: list[Value]) -> Any:
        fixed.append(self.value)
        return "fixed", len(fixed) - 1


@dataclass(frozen=True)
class Many(Shape):
    """A tuple, list or dict that a round made. given: it is an item of a list that the call was given, an object that
    rows do not know."""

    cls: type
    parts: tuple[Shape, ...]
    keys: tuple[Any, ...] = ()
    given: bool = field(default=False, compare=False)

    def fold(self, leaf: Callable[[Leaf], T], fixed: Callable[[Fixed], T],
             many: Callable[[Many, Iterator[T]], T]) -> T:
        return many(self, (part.fold(leaf, fixed, many) for part in self.parts))

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()

    def map(self, fn: Callable[[Leaf], Leaf]) -> Many:
        return replace(self, parts=tuple(part.map(fn) for part in self.parts))

    def value(self, parts: list[Any]) -> Value:
        """What a round made of these."""
        if self.cls is dict:
            return DictV(dict(zip(self.keys, parts)), of_row=self.given)
        return ListV(parts) if self.cls is list else TupleV(parts, self.cls, of_row=self.given)

    def spec(self, fixed: list[Value]) -> Any:
        return self.cls, self.keys, tuple(part.spec(fixed) for part in self.parts)


@dataclass(eq=False)
class Run:
    """What the rounds of a loop appended: `shapes` in each, whose leaves are rows of the `stacks`."""

    length: Any
    shapes: tuple[Shape, ...]
    stacks: list[Any]

    def held(self) -> list[Any]:
        """The Values that it keeps alive."""
        fixed: list[Any] = []
        for shape in self.shapes:
            shape.spec(fixed)
        return [*self.stacks, *fixed]


def is_run(part: Any) -> TypeGuard[Run]:
    """Whether a part of a list is what a loop appended, and no item."""
    return isinstance(part, Run)


def holds_given(run: Run) -> bool:
    """Whether items are objects, or hold such, that the call was given."""
    no = lambda shape: False
    return any(shape.fold(no, no, lambda many, parts: many.given or any([*parts])) for shape in run.shapes)


def is_leaf(shape: Shape) -> TypeGuard[Leaf]:
    """Whether each round made one array or number, and nothing around it."""
    return isinstance(shape, Leaf)


def is_fixed(shape: Shape) -> TypeGuard[Fixed]:
    """Whether each round made the same."""
    return isinstance(shape, Fixed)


def parts_of(v: ListV | RowsV) -> list[Any]:
    """All that a list holds, items and Runs."""
    return list(v.items) if v.front is None else [*v.front.parts, *v.appended]


def kinds_of(run: Run) -> tuple[Any, ...]:
    """Of each stack the type of the numbers that its rows are; None for arrays."""
    found: list[Any] = [None] * len(run.stacks)
    for shape in run.shapes:
        for leaf in shape.leaves():
            found[leaf.index] = leaf.number
    return tuple(found)
