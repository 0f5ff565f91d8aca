"""What a capture is told: the lessons of the attempts before it, and what earlier calls of the frame had.

An attempt that meets something that it cannot know in advance (a break inside a callee, a size that must be a constant)
writes it into `Lessons` and ends; the driver starts the next one with them. What earlier calls had is the driver's to
remember: a capture asks its `Policy`, which answers questions and changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.values import sources as S


def never(*question: Any) -> Any:
    """The answer of a Policy that has seen no call."""
    return False


@dataclass(frozen=True)
class Policy:
    """What is symbolic in a capture.

    size(source, axis, size, array)  False, True, or the least and the greatest size that the entry is to serve
    scalar(source, value)            whether a Python number or string is an input, not a constant
    changes_often(source)            whether what is found there had too many values to be a constant
    opens                            from how many conditions on changing numbers on they are left open; None: never
    """

    size: Callable[[S.Source, int, int, Any], Any] = never
    scalar: Callable[[S.Source, Any], bool] = never
    changes_often: Callable[[S.Source], bool] = never
    opens: int | None = None


@dataclass(frozen=True)
class Data(S.Source):
    """The texts and containers that a frame is given: a question, whether calls have had others."""


@dataclass(frozen=True)
class Stored(S.Source):
    """A question: whether calls have missed entries, more than once, because the NumPy array at `base` held something
    else."""

    base: S.Source


@dataclass(frozen=True)
class Lesson:
    """Something that an earlier attempt learned: break before step `step` of the outermost frame. because: the guards
    that the break itself rests on, and the symbols in them with their places and values."""

    step: int
    kind: str
    detail: str
    where: tuple[tuple[str, int, str], ...]
    because: tuple[Any, ...] = ()
    sizes: tuple[tuple[str, Any, Any], ...] = ()


@dataclass(frozen=True)
class Frozen:
    """Why a size is a constant: what could not take it otherwise, where, and its value then; whether that was
    what compiles the Graph, not a call in it."""

    what: str
    where: tuple[tuple[str, int, str], ...]
    value: int
    compiled: bool = False


@dataclass
class Lessons:
    """What is carried from one attempt at a frame to the next."""

    breaks: dict[int, Lesson] = field(default_factory=dict)
    fixed: S.Places = field(default_factory=S.Places)  # changing numbers that must be constants all the same
    all_fixed: bool = False  # so many of those that every one is, but for those that change often
    plain_ifs: bool = False  # an `if` turned `cond` would have lost the identity of an input
    endless: set[int] = field(default_factory=set)  # code that calls itself as an array decides: its jumps break
    items_apart: bool = False  # rows of a list that the call was given would have lost that of its items
    unrolled: set[Any] = field(default_factory=set)  # loops that could not become one node
    rolled: set[Any] = field(default_factory=set)  # long loops of Python that are to become one
    pure_bodies: bool = False  # what a transformed function changed would have let arrays out of it
    waits: set[Any] = field(default_factory=set)  # what a coroutine awaits there only an event loop can wait for
    results: dict[Any, Any] = field(default_factory=dict)  # of functions whose result is said to be constant
    frozen: dict[S.Source, Frozen] = field(default_factory=dict)  # sizes that must be constants, and why
    takes_sides: bool = False  # what takes the `min` or `max` of a size wants a constant, which one of the two may be
    decided: set[str] = field(default_factory=set)  # truths of changing numbers that must be constants
    sized: S.Places = field(default_factory=S.Places)  # changing ints that JAX wants as sizes
    pinned: set[str] = field(default_factory=set)  # ints computed of those which are constants where JAX gets them
    counts: dict[str, bool] = field(default_factory=dict)  # ints that Python computes, and whether they are sizes
    spelled: set[tuple[str, Any, str]] = field(default_factory=set)  # call, argument, NumPy's number: wanted as a size
    asked_at_once: bool = False  # no condition is left for the end of the Graph
    shown_arrays: bool = False  # a library looked at the content of NumPy arrays that are constants
    order: int = 0  # how often calls are differentiated, to find the rules that derivatives reach
    opens: bool = False  # conditions on numbers that change are left open, see `control_flow.openings`
    apart: set[Any] = field(default_factory=set)  # codes that change trees: `jax.jit` makes these anew
    entered: dict[Any, bool] = field(default_factory=dict)  # library functions that no size can pass; False: nor enter
    unpacked: dict[int, Any] = field(default_factory=dict)  # functions and classes of libraries, no nodes, by id
    opens_trees: bool = False  # what called objects keep beside their leaves is captured: a size came there
    shut: set[Any] = field(default_factory=set)  # but for those at these places
    mapped: dict[int, bool] = field(default_factory=dict)  # code of generators: whether loops go through them as `map`
    counted: set[str] = field(default_factory=set)  # numbers that the call changes where it found them
    given_back: Any = None  # what was known before numbers counted for those in the result; False: they do not
    memos: set[Any] = field(default_factory=set)  # dicts of libraries' contexts that a call after a guard has added to
    reads_record: bool = False  # a list is looked at in which `warnings.catch_warnings` records what is left to Python
    tells_twins: bool = False  # a container found at two places has to be one Value, see `twins`
    answers: bool = False  # libraries ask changing numbers something: what stands for these answers
    bare: set[int] = field(default_factory=set)  # steps that call a function with a rule which looks at its arrays
    each_checked: bool = False  # a metaclass's check of an instance changes something, see `class_checks`

    def learnt(self) -> int:
        """How much keeps the Graph from serving all calls, whole."""
        return (len(self.breaks) + len(self.fixed) + len(self.frozen) + len(self.unrolled) + len(self.endless)
                + self.plain_ifs)

    def state(self) -> dict[str, Any]:
        """A copy of all, to compare with."""
        return {name: copy.copy(held) for name, held in vars(self).items()}

    def kept(self) -> dict[str, Any]:
        """A copy of what was learned, but for the places that are shut."""
        return {name: held for name, held in self.state().items() if name != "shut"}

    def doubts_result(self) -> bool:
        """Whether a break came once numbers counted for those in the result: they are constants then."""
        before = self.given_back
        if not before or before["breaks"]:
            return False
        self.put_back(before)
        self.given_back = False
        return True

    def put_back(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
