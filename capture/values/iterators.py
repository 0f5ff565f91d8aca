"""Values of iterators: generators, over sequences, counting, and over other iterators (see `iteration`).

    >>> SeqIterV(TupleV([Const(1), Const(2)])).index
    0
"""

from __future__ import annotations

import inspect
import itertools
import types
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.base import itertools_py
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.values.computed import SizeV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.value import MutableV, NotConstant, Value


@dataclass(eq=False)
class GeneratorV(MutableV):
    """A generator of the captured code; `frame` is its suspended symbolic frame. real: the driver that exists of it
    already (see suspended_values.py). maker: the frame that has called its function, and where."""

    frame: Any
    started: bool = False
    done: bool = False
    running: bool = False
    real: Any = None
    dirty: bool = False
    ahead: Any = None  # what it has yielded, and its driver is still to yield
    maker: tuple[Any, int] = (None, 0)


@dataclass(eq=False)
class SeqIterV(Value):
    """An iterator over the items of a list (seen live) or tuple: the next one is at `index`.

    `kind` is "forward" for `iter(seq)` (`iter(text)`, when the items are those of a constant),
    "reversed" for `reversed(seq)`, "other" for an iterator of another class that gives these items: `maker` is its
    class and arguments, where it can be made anew of those; `seen` says whether the program may have it in its hands,
    and not a loop alone."""

    seq: Any
    index: int = 0
    kind: str = "forward"
    text: Any = None
    ended: bool = False
    maker: tuple[Any, list[Value], dict[str, Any]] | None = None
    seen: bool = False
    since: int = field(init=False)  # `changes` of the deque when it was made

    def __post_init__(self) -> None:
        self.since = getattr(self.seq, "changes", 0)


@dataclass(eq=False)
class CountIterV(Value):
    """`range` iterators: next value, stop (None: endless, `itertools.count`), step. `asked`: how often a symbolic stop
    was compared with."""

    current: Any
    stop: Any
    step: Any
    asked: int = 0


@dataclass(eq=False)
class StreamV(MutableV):
    """A lazy iterator over others: `kind` is zip, enumerate, map, filter, chain, islice, ...; "rows" are those of an
    array, part 1, whose numbers part 0 gives. Part 1 of an enumerate counts. maker: the frame that has called `zip` or
    `enumerate`, and where."""

    kind: str
    parts: list[Any]
    fn: Value | None = None
    state: dict[str, Any] = field(default_factory=dict)
    real: Any = None  # the object itself, here and below, if it exists already
    dirty: bool = False
    maker: tuple[Any, int] = (None, 0)


@dataclass(eq=False)
class ASendV(Value):
    """What `gen.asend(value)` of an asynchronous generator gives (`__anext__`: of None): awaited, it goes on with it.

    value: None once it was sent. used: whether the generator has come to its next `yield`."""

    gen: Value
    value: Any
    used: bool = False


@dataclass(eq=False)
class GivenIterV(MutableV):
    """An iterator over a built-in container that the code was given, `taken` items further on.

    Items are looked at where they will come (sources.Upcoming), whatever their number is by then, and taken
    from the real one after the graph."""

    real: Any
    taken: int = 0
    ended: bool = False
    failed: bool = False  # it was asked for an item of a dict that has grown or shrunk: from then on it raises
    dirty: bool = False


COUNTED = ("rows", "zip", "enumerate", "map")  # streams that go on as their parts do, round by round


def counters(it: Value) -> list[CountIterV]:
    """The counts of which an iterator is made that ends where they do; none where it is made of something else."""
    row = kind(it).counters
    return [] if row is None else row(it)


def _of_parts(it: StreamV) -> list[CountIterV]:
    if it.kind not in COUNTED or it.real is not None or it.state.get("strict"):
        return []
    found = [counters(part) for part in (it.parts[:1] if it.kind == "rows" else it.parts)]
    return [c for part in found for c in part] if all(found) else []


def is_sized(counts: list[CountIterV]) -> bool:
    """Whether a size says where one of these counts is, or ends."""
    return any(of_class(SizeV, (x for c in counts for x in (c.current, c.stop))))


SUSPENDING = {inspect.CO_GENERATOR: types.GeneratorType, inspect.CO_COROUTINE: types.CoroutineType,
              inspect.CO_ASYNC_GENERATOR: types.AsyncGeneratorType}


def _generator_type(v: GeneratorV) -> type:
    code = v.frame.code.code
    if code.co_filename == itertools_py.__file__:
        return itertools_py.CLASSES[code]
    return next(made for flag, made in SUSPENDING.items() if code.co_flags & flag)


# What `type()` says of a StreamV, by its kind.
STREAM_TYPES: dict[str, type] = {
    "zip": zip, "enumerate": enumerate, "map": map, "filter": filter, "chain": itertools.chain,
    "islice": itertools.islice, "repeat": itertools.repeat, "call": type(iter(int, 1))}


def _stream_type(v: StreamV) -> type:
    if v.real is None and v.kind not in STREAM_TYPES:
        raise NotConstant(v)
    return STREAM_TYPES[v.kind] if v.real is None else type(v.real)


define(StreamV, Kind(python_type=_stream_type, counters=_of_parts))
define(CountIterV, Kind(counters=lambda it: [it], many=lambda it: True))
define(GeneratorV, Kind(python_type=_generator_type, result=lambda v: v.frame.result,
                        many=lambda v: v.real is not None))
