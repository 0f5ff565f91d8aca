"""Iterators that the code was given: list iterators, ranges, enumerates and the like that somebody else has made.

Over a built-in container, what such an iterator will give can be seen without asking it: a `GivenIterV`. Zip, map,
filter and enumerate are read into the StreamV that captured code would have made of the same parts. The real ones
are brought to where the captured code has come to by the replay of side effects, before all others: from then on
the program may change the containers.
"""

from __future__ import annotations

import collections
from typing import Any

from dynacomp.capture._native import iterated, set_enumerate, upcoming
from dynacomp.capture.base.errors import Break, Raised, Unbuildable
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.reconstruct.unchanged import changed_entries, unmoved
from dynacomp.capture.reconstruct.upcoming import fail, reduced, take
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import SETTLED, changed, mutating
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.iterators import CountIterV, GivenIterV, StreamV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import is_dict, is_list
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import WRAPPERS, realize, wrap

# --- over containers


def advance(cap: Capture, it: GivenIterV) -> Value | None:
    """Its next element, None at its end; Break where the container is another one by now."""
    mutating(cap, it)
    if it.ended:
        return None
    assert it.source is not None
    known: Any = cap.known.objects.get(id(iterated(it.real)))
    _check_size(cap, it, known)
    dirty = getattr(getattr(known, "payload", None) or known, "dirty", False)
    found = _upcoming(it)
    changed_dict = dirty and _has_its_entries(it, known)
    if dirty and not changed_dict and not (found and type(it.real) is type(iter([])) and _has_only_grown(known)):
        raise Break("iterator", "an iterator over a container that has changed")
    if not found:
        cap.guards.add("ended", it.source, it.taken)
        it.ended = True
        return None
    place = S.Upcoming(it.source, it.taken)
    it.taken += 1
    cap.known.keep.append(found)
    if changed_dict:
        return _entry(cap, it, known, found[0], place)
    if type(it.real) in PAIRS:  # made anew whenever somebody looks
        return TupleV([wrap(cap, x, S.Item(place, n)) for n, x in enumerate(found[0])])
    return wrap(cap, found[0], place)


def _upcoming(it: GivenIterV) -> tuple[Any, ...]:
    try:
        return upcoming(it.real, it.taken)
    except ours(RuntimeError, TypeError) as error:
        raise Break("iterator", str(error)) from None


def _has_only_grown(v: Any) -> bool:
    """Whether the items that a list had lie where they lay."""
    return is_list(v) and v.cls is list and (v.is_open or unmoved(v)[0] == len(v.real))


# --- over a dict that the code changes meanwhile


def _check_size(cap: Capture, it: GivenIterV, known: Any) -> None:
    """Python's iterators refuse a dict that has grown or shrunk, from then on."""
    resized = type(it.real) in OVER_DICTS and _is_plain_dict(known) and len(known.items) != len(known.real)
    if resized and not it.failed:
        _upcoming(it)
        cap.guards.add("same", S.Iterated(it.source), known.source)  # type: ignore[arg-type]
        it.failed = True
    if it.failed:
        raise Raised(Const(RuntimeError("dictionary changed size during iteration")))


def _is_plain_dict(v: Any) -> bool:
    return is_dict(v) and v.cls is dict and v.owner is None and v.real is not None


def _has_its_entries(it: GivenIterV, v: Any) -> bool:
    """Whether a dict has the keys that it had, where they were: an iterator goes on, to what stands there now."""
    return type(it.real) in OVER_DICTS and _is_plain_dict(v) and not v.lost and changed_entries(v) is not None


def _entry(cap: Capture, it: GivenIterV, table: DictV, found: Any, place: S.Source) -> Value:
    """The entry that comes, of a dict as the code has changed it."""
    cap.guards.add("same", S.Iterated(it.source), table.source)  # type: ignore[arg-type]
    if type(it.real) is not PAIRS[0]:
        return wrap(cap, found, place)
    key = wrap(cap, found[0], S.Item(place, 0))
    return TupleV([key, realize(cap, table.items[found[0]])])


EMPTY: dict[int, int] = {}
PAIRS = (type(iter(EMPTY.items())), type(reversed(EMPTY.items())))
OVER_DICTS = (type(iter(EMPTY)), PAIRS[0])  # in order, by key
OVER_CONTAINERS = (*PAIRS, *map(type, (
    iter([]), iter(()), iter(range(0)), iter(range(1 << 65)), iter(""), iter("ä"), iter(b""), iter(set()), iter(EMPTY),
    iter(EMPTY.values()), reversed([]), reversed(EMPTY), reversed(EMPTY.values()),
    iter(collections.deque()), reversed(collections.deque()))))


def _given(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("is_type", source, type(obj))
    return GivenIterV(obj, source=source)


def _apart(cap: Capture) -> None:
    """Guards that no iterator goes through a container which the code changes: its items were seen before that."""
    given = [v for v in of_class(GivenIterV, cap.known.objects.values()) if v.dirty]
    for container in changed(cap) if given else ():
        for it in given:
            if isinstance(container, CONTAINERS) and container.source is not None and it.source is not None and (
                    iterated(it.real) is not container.real):  # type: ignore[attr-defined]
                cap.guards.add("distinct", S.Iterated(it.source), container.source)


# --- of other iterators


HUGE = 1 << 62


def _combined(kind: type) -> Any:
    def row(cap: Capture, obj: Any, source: S.Source) -> Value:
        parts = reduced(obj)
        if kind is enumerate and parts[1][1] >= HUGE:
            raise Break("iterator", "an enumerate of numbers beyond the machine's")
        cap.guards.add("is_type", source, kind)
        held = S.Reduced(source)
        cap.guards.add("len", held, len(parts))
        cap.guards.add("len", S.Item(held, 1), len(parts[1]))
        values = [wrap(cap, x, S.Item(S.Item(held, 1), n)) for n, x in enumerate(parts[1])]
        made = StreamV(kind.__name__, values, real=obj, source=source)
        if kind in (map, filter):
            made.fn, made.parts = values[0], values[1:]
        if kind is enumerate:
            made.parts = [values[0], CountIterV(values[1], None, Const(1))]
        if len(parts) > 2:
            made.state = {"strict": True}
        return made
    return row


def _prepare_given(w: Any, v: GivenIterV) -> None:
    target = w.save(v)
    w.replays.insert(0, lambda: w.act(take, lambda: w.e.op("LOAD_FAST", target), lambda: w.e.const(v.taken),
                                      lambda: w.e.const(v.ended)))
    if v.failed:
        table: Any = w.cap.known.objects[id(iterated(v.real))]
        if len(table.items) == len(table.real):
            raise Unbuildable(v, "an iterator over a dict that had another size for a while")
        w.e.late.append(lambda: w.act(fail, lambda: w.e.op("LOAD_FAST", target)))


def _prepare_stream(w: Any, v: StreamV) -> None:
    """Only an enumerate has something to itself, the others are what their parts are."""
    if v.kind == "enumerate":
        target, number = w.save(v), w.save(v.parts[1].current)
        w.replays.append(lambda: w.act(set_enumerate, *[lambda n=n: w.e.op("LOAD_FAST", n) for n in (target, number)]))


CONTAINERS = (ListV, DictV, SetV)
SETTLED.append(_apart)
WRAPPERS.update(dict.fromkeys(OVER_CONTAINERS, _given))
WRAPPERS.update({kind: _combined(kind) for kind in (zip, enumerate, map, filter)})
define(GivenIterV, Kind(replay=_prepare_given))
define(StreamV, Kind(replay=_prepare_stream))
