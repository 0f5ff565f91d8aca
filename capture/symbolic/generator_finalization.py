"""Generators that are dropped before their end: CPython closes them at once, and what waits in them runs.

A generator that stands inside `try` or `with` is *pending*: where the last reference to it goes, its `finally` runs.
Captured code counts no references, so `dropped` is told of what a frame lets go of. Where that led to a pending
generator, all that can still be found is walked once: from the frames, from existing objects, from what is to be
stored. Mostly that is not needed: the way on which a frame's stack was seen to hold a generator (the `with` that it
serves is on its way) is kept, and while each step of it still leads to the next, nothing was lost.

A lost generator that the captured code made is closed there and then; one that exists, whose other references only
Python knows, is dropped by Python.

What objects let go of is seen by what they held before they changed (`changing`, `changed`). What is told of neither
way ends in `check_none_lost`: Python makes that generator, and so drops it.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.errors import Break, Raised, Unbuildable
from dynacomp.capture.symbolic.generators import close, delegate
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.grown_items import Front
from dynacomp.capture.values.iterators import GeneratorV, GivenIterV, StreamV
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.value import Lazy, Value

LEAVES: list[type] = [ArrayV, Const, Lazy, NumberV, ScalarV, SizeV, GivenIterV, OpaqueV]
ITERATORS = (GeneratorV, StreamV, GivenIterV)


def dropped(cap: Capture, values: Iterable[Any], keep: Any = None) -> None:
    """Tells that a frame has let go of these Values; `keep`: what its caller is about to get."""
    if all(map(_leads_nowhere, values)) or all(g.running or _is_held(cap, g) for g in cap.dropping.pending.values()):
        return
    innermost = () if cap.current is None else (cap.current,)
    led_to = _led_to(cap, values, innermost) and _led_to(cap, values, frames(cap))
    for v in _walk([*_roots(cap), keep], lambda v: True) if led_to else ():
        if led_to.pop(id(v), None) is not None and not led_to:
            break
    if led_to:
        lost = list(led_to.values())
        inner = {id(delegate(g.frame)) for g in lost}
        for gen in lost:
            if id(gen) not in inner:
                _drop(cap, gen)


def _leads_nowhere(value: Any) -> bool:
    """Whether a look is enough to say that there is no generator behind it: asked of what most calls were given."""
    if type(value) is list:
        return all(map(_leads_nowhere, value))
    inside = INSIDE.get(type(value), iter)
    return inside is None or inside is _parts and not _is_new(value)


def changing(cap: Capture, value: Value) -> None:
    """Tells that an object is about to change: what it holds now, it may let go of."""
    if not all(g.running or _is_held(cap, g, value) for g in cap.dropping.pending.values()):
        cap.dropping.held_before += [copy.copy(part) if type(part) in CONTENT else part for part in _parts(value)]


def changed(cap: Capture) -> None:
    """Tells that the instruction has ended that changed objects."""
    held, cap.dropping.held_before = cap.dropping.held_before, []
    dropped(cap, held)


SEARCHED, SKIPPED = 300, 100  # things looked at for a way; calls after a search in vain before the next


@dataclass
class Way:
    """From a frame's stack to what it holds; no `steps` where none was found, and how many calls ago that was. A step
    is what comes next, and where the one before has it: an index, a key, the name of a Value's field; None where only
    a look at all says that (a set)."""

    frame: Frame | None = None
    steps: tuple[tuple[Any, Any], ...] = ()
    age: int = 0


def _is_held(cap: Capture, gen: GeneratorV, apart_from: Any = None) -> bool:
    """Whether a frame's stack is seen to hold the generator still, on a way that does not lead through one object;
    False where that is not known."""
    way = cap.dropping.holders.get(id(gen))
    if way is None or way.steps and not _leads(way, gen) or not way.steps and way.age >= SKIPPED:
        way = cap.dropping.holders[id(gen)] = _way_to(cap, gen)
    way.age += 1
    if apart_from is not None:
        for _, step in way.steps:
            if step is apart_from:
                return False
    return bool(way.steps)


def _leads(way: Way, gen: GeneratorV) -> bool:
    """Whether a way is as it was found: the frame runs, and each step holds the next where it did. Asked after most
    calls, so that nothing is searched."""
    if way.frame is None or not way.frame.running:
        return False
    at: Any = way.frame.stack
    for place, step in way.steps:
        kind = type(at)
        if kind is list or kind is tuple:
            if place >= len(at) or at[place] is not step:
                return False
        elif place is None:
            if not any(x is step for _, x in _steps_from(at)):
                return False
        elif (at if kind is dict else at.__dict__).get(place) is not step:
            return False
        at = step
    return at is gen


def _way_to(cap: Capture, gen: GeneratorV) -> Way:
    """The way from a frame's stack to a generator, the innermost frame's first; none where it is not soon found."""
    left = SEARCHED
    for frame in frames(cap):
        todo: list[tuple[tuple[Any, Any], ...]] = [(step,) for step in _steps_from(frame.stack)]
        seen = set()
        while todo and left:
            steps = todo.pop()
            left -= 1
            at = steps[-1][1]
            if at is gen:
                return Way(frame, steps)
            if id(at) not in seen:
                seen.add(id(at))
                todo += [(*steps, step) for step in _steps_from(at)]
    return Way()


def _steps_from(at: Any) -> Iterable[tuple[Any, Any]]:
    """What one thing leads to, and where it has that (see `Way`)."""
    inside = _inside(type(at))
    if inside is _parts:
        return ((name, part) for name, part in vars(at).items() if name not in REAL)
    if type(at) is dict:
        return at.items()
    if type(at) in (list, tuple):
        return enumerate(at)
    return () if inside is None else ((None, part) for part in inside(at))


def _led_to(cap: Capture, values: Iterable[Any], holders: Iterable[Frame]) -> dict[int, Any]:
    """The pending generators that those of the Values lead to which none of the frames `holders` holds: the fewer
    frames are asked, the more is found."""
    held = {id(v) for frame in holders for v in (*frame.locals.values(), *frame.stack)}
    return {id(v): v for v in _walk([v for v in values if id(v) not in held], _is_new)
            if id(v) in cap.dropping.pending and not v.running}


def _is_new(v: Value) -> bool:
    """Whether a reference to it may be the last: existing objects have others, but iterators that a frame was given."""
    return v.source is None or isinstance(v, ITERATORS) and isinstance(v.source, (S.Local, S.Delegate))


def _walk(values: Iterable[Any], enter: Callable[[Value], bool]) -> Iterator[Any]:
    """The Values that lead on from these, each once; never into objects of the program's own."""
    todo, seen = list(values), set()
    while todo:
        at = todo.pop()
        inside = _inside(type(at))
        if inside is None or id(at) in seen:
            continue
        seen.add(id(at))
        if inside not in CONTAINED:
            if not enter(at):
                continue
            yield at
        todo.extend(inside(at))


def _inside(cls: type) -> Callable[[Any], Iterable[Any]] | None:
    """What gives the things in one of these; None where it leads nowhere. Remembered for our own classes, which live
    as long as this table: most of what a walk meets is of a few."""
    if cls in INSIDE:
        return INSIDE[cls]
    found = _inside_of(cls)
    if issubclass(cls, Value):
        INSIDE[cls] = found
    return found


def _inside_of(cls: type) -> Callable[[Any], Iterable[Any]] | None:
    """What gives the things in one of these; None where it leads nowhere."""
    if issubclass(cls, tuple(LEAVES)):
        return None
    rows = ((Value, _of_generator if issubclass(cls, GeneratorV) else _parts), ((list, tuple, set), iter),
            (dict, dict.values), (Front, HELD))
    return next((how for kinds, how in rows if issubclass(cls, kinds)), None)


INSIDE: dict[type, Callable[[Any], Iterable[Any]] | None] = {
    list: iter, tuple: iter, set: iter, dict: dict.values, **dict.fromkeys((*LEAVES, str, int, bool, type(None), type))}
HELD = operator.methodcaller("held")
CONTAINED = (iter, dict.values, HELD)
CONTENT = (list, set, dict)


def _of_generator(v: Any) -> list[Any]:
    return _held(v.frame)


def _parts(v: Value) -> list[Any]:
    return [part for name, part in vars(v).items() if name not in REAL]


REAL = ("real", "globals", "code", "cls", "unread", "unseen", "source", "make")  # what is no Value in a Value


def _held(frame: Frame) -> list[Any]:
    return [frame.locals, frame.stack, frame.cells, frame.handling, frame.result, frame.yielded, frame.function]


def _roots(cap: Capture) -> list[Any]:
    found = [*cap.effects.stored(), *cap.effects.operands(),
             *(v for v in cap.known.objects.values() if not isinstance(v, ITERATORS)),
             *(g for g in cap.dropping.pending.values() if g.running)]
    for frame in reversed(list(frames(cap))):  # the innermost one is looked at first: most are found there
        found += _held(frame)
    return found


def is_reachable(cap: Capture, value: Value) -> bool:
    """Whether the program can still get at an object: from its frames, from existing objects, from what is stored."""
    return any(v is value for v in _walk(_roots(cap), lambda v: True))


def frames(cap: Capture) -> Iterator[Frame]:
    """The frames that run, the innermost first."""
    frame = cap.current
    while frame is not None:
        yield frame
        frame = frame.parent


def _drop(cap: Capture, gen: GeneratorV) -> None:
    if gen.real is None and not gen.started:
        raise Break("effect", f"a coroutine that is never awaited ({gen.frame.code.code.co_qualname})")
    if gen.real is not None:
        if cap.current is None:  # the outermost frame ends: it drops what it was given
            return
        raise Break("effect", f"a generator that runs code when it is dropped ({gen.frame.code.code.co_qualname})")
    try:
        close(cap, gen)
    except Raised:
        raise Break("effect", "an exception in a generator that is dropped") from None


def check_none_lost(cap: Capture, made: dict[int, Any]) -> None:
    """At the end of the code that rebuilds what is alive (`made`: by id): no pending generator was forgotten."""
    for gen in cap.dropping.pending.values():
        if gen.real is None and id(gen) not in made:
            raise Unbuildable(gen, "a generator that is dropped before its end")


OPERATIONS.dropped = dropped
OPERATIONS.changing = changing
OPERATIONS.changed = changed
