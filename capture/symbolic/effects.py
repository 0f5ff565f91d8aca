"""The log of side effects: what happens once the Graph has run, phase by phase.

While capturing, nothing real is changed. What the program does outside itself is noted here; replacement code first
makes all that the rows need (`output.Writer`), then replays them:

    CALLS    prints, warnings, states of random generators, hits of caches: as the program made them
    CHANGES  existing containers, objects and cells that differ now: found by `side_effects.changed`, not noted here
    ARRAYS   attributes of arrays that exist
    NAMES    globals of modules, then attributes of classes
    LAST     what waits for all else: locks are given back

Stores to names are kept by name until then, for the program reads what it has stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.value import Value


class Phase(IntEnum):
    CALLS = 0
    CHANGES = 1
    ARRAYS = 2
    NAMES = 3
    LAST = 4


@dataclass(frozen=True, eq=False)
class Real:
    """An operand that exists, and that the replacement code has as a constant."""

    obj: Any


@dataclass(eq=False)
class Jitted:
    """A call of `jax.jit(f)` whose function is entered in its place. depth: in how many bodies it stands; nodes: those
    of the Graph there, `before` of which are older; given: the Nodes that it is given, and where what it is given comes
    from."""

    depth: int
    nodes: list[Any]
    before: int = 0
    given: set[Any] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Globals:
    """An operand: the globals of a module, which code that runs in it finds by itself."""

    table: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Made:
    """An operand: those of these arrays of the Graph that Python gets, a tuple. The others are not computed for it."""

    arrays: tuple[ArrayV, ...]


@dataclass(frozen=True, eq=False)
class Effect:
    """One row: in its phase, `act` is called with the operands; Values among them are made before any effect."""

    phase: Phase
    act: Callable[..., Any]
    operands: tuple[Value | Real | Globals | Made, ...]
    heard: bool = False  # somebody notices how often it happens


@dataclass(eq=False)
class Effects:
    """What the captured code has done so far that others can see."""

    calls: list[Effect] = field(default_factory=list)
    globals: dict[tuple[int, str], tuple[dict[str, Any], S.Source | None, Any]] = field(default_factory=dict)
    classes: dict[tuple[int, str], tuple[type, Any]] = field(default_factory=dict)  # a Value, or DELETED
    arrays: dict[int, tuple[ArrayV, dict[str, Value]]] = field(default_factory=dict)  # id of one → it, what it got
    mutated: list[Any] = field(default_factory=list)  # Values changed in place, in order; None for a global, a class
    serials: list[int] = field(default_factory=list)  # of these changes: Values with a higher one were made later
    watches: list[Any] = field(default_factory=list)  # stretches of code whose changes are noted, see `undo_log.Watch`
    jitted: list[Jitted] = field(default_factory=list)  # the calls of `jax.jit(f)` that are being entered
    warned: dict[int, set[Any]] | None = None  # what modules have warned of, once known: see `warning_rows`
    donated: dict[Any, ArrayV] = field(default_factory=dict)  # Node → an array that a call has deleted
    tokens: list[Any] = field(default_factory=list)  # of context variables that `calls` set: see `context_variables`
    records: list[Any] = field(default_factory=list)  # lists that record warnings which are left to Python
    said: set[Any] = field(default_factory=set)  # the places in bodies where a warning was given

    def __bool__(self) -> bool:
        """Whether anything is to be replayed."""
        return bool(self.calls or self.globals or self.classes or self.arrays)

    def call(self, act: Callable[..., Any], args: list[Value], kwargs: dict[str, Value] | None = None,
             table: dict[str, Any] | None = None, phase: Phase = Phase.CALLS, heard: bool = False) -> None:
        """Notes a call `act(args, kwargs)`, or `act(args, kwargs, table)` with the globals of a module."""
        where = () if table is None else (Globals(table),)
        self.calls.append(Effect(phase, act, (TupleV(args), DictV(dict(kwargs or {})), *where), heard))

    def take_back(self, count: int) -> list[Effect]:
        """Takes out what is heard of the calls behind the first so many, and gives it."""
        late = self.calls[count:]
        self.calls[count:] = [e for e in late if not e.heard]
        return [e for e in late if e.heard]

    def stored(self) -> list[Any]:
        """What names have been given: Values, None for a deleted global, DELETED for an attribute of a class."""
        return [write[-1] for write in (*self.globals.values(), *self.classes.values())]

    def operands(self) -> Iterator[Value]:
        """The Values of noted calls."""
        return (v for effect in self.calls for v in effect.operands if is_value(v))
