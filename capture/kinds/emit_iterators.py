"""Iterators that are alive where captured code ends, rebuilt where they stand.

Most classes of iterators can be made anew from what is left. Iterators over a container go on with
it, so they are made over the container itself and moved; one over a list that the captured code
changed is moved once the changes are made. One that only a loop has may be of a simpler class than
Python's. What cannot be made (an iterator that stands for one of another class, one over a dict that
has changed since) is `Unbuildable`: Python makes it, after a graph break where it is born.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

from dynacomp.capture.base import itertools_py
from dynacomp.capture.base.errors import Unbuildable
from dynacomp.capture.bytecode import generator_plan
from dynacomp.capture.kinds.suspended_values import Standing, standing
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.emit import Emitter, made
from dynacomp.capture.reconstruct.output import Writer
from dynacomp.capture.symbolic.side_effects import leaving_apart
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.containers import ListV, SetV, TupleV, ViewV
from dynacomp.capture.values.iterators import ASendV, CountIterV, GeneratorV, SeqIterV, StreamV, counters
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import is_list
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builtin_subclasses import plain

NONE = Const(None)


# --- at run time


def move_to(it: Any, seq: Any, index: int) -> None:
    """Puts an iterator over a sequence where item `index` comes next. A list may have become too short for that, which
    ends no iterator, as more may come: it is that long for a moment, since `__setstate__` takes no other places."""
    missing = index + isinstance(it, type(reversed([]))) - len(seq) if isinstance(seq, list) else 0
    if missing > 0:
        list.extend(seq, (None,) * missing)
    it.__setstate__(index)
    if missing > 0:
        list.__delitem__(seq, slice(-missing, None))


def iterator_at(seq: Any, index: int) -> Any:
    """`iter(seq)` after `index` steps."""
    it = iter(seq)
    if hasattr(it, "__setstate__"):
        move_to(it, seq, index)
        return it
    return stepped(it, index)


def reversed_at(seq: Any, index: int) -> Any:
    """`reversed(seq)` when item `index` comes next."""
    it = reversed(seq)
    if not hasattr(it, "__setstate__"):
        return stepped(it, len(seq) - 1 - index)
    move_to(it, seq, index)
    return it


def stepped(it: Any, steps: int) -> Any:
    collections.deque(itertools.islice(it, steps), maxlen=0)
    return it


def at_end(it: Any) -> Any:
    """An iterator that has ended, and stays so."""
    for _ in it:
        pass
    return it


def count_iterator(current: Any, stop: Any, step: Any) -> Any:
    return itertools.count(current, step) if stop is None else iter(range(current, stop, step))


def table_iterator(table: Any, kind: str, index: int) -> Any:
    """An iterator over a dict or a set that has given some elements already."""
    it = iter(table if isinstance(table, (set, frozenset)) else runtime.view(table, kind))
    return at_end(it) if index < 0 else stepped(it, index)


def slice_iterator(part: Any, skip: int, stop: int | None, step: int) -> Any:
    """An islice that passes `skip` items before its next one and ends before item `stop`, counted from here."""
    return itertools.islice(part, skip, stop, step)


def sequence_protocol_iterator(obj: Any, index: int) -> Any:
    """An iterator that calls `obj[0]`, `obj[1]`, ... and stands at `index`."""
    it = iter(obj)
    it.__setstate__(index) if index >= 0 else it.__setstate__(1 << 62)
    return it


def ended_calls() -> Any:
    return at_end(iter(int, 0))


def repeated(item: Any, left: int | None) -> Any:
    return itertools.repeat(item) if left is None else itertools.repeat(item, left)


def generator(fn: Any, names: tuple, values: tuple) -> Any:
    """A generator that has not started, with its arguments bound by parameter."""
    code = fn.__code__
    bound = dict(zip(names, values))
    star = names[code.co_argcount + code.co_kwonlyargcount:]
    extra: tuple = bound[star[0]] if code.co_flags & 4 else ()
    kwargs = {n: bound[n] for n in names[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]}
    if code.co_flags & 8:
        kwargs.update(bound[star[-1]])
    return fn(*(bound[n] for n in names[:code.co_argcount]), *extra, **kwargs)


def ended_generator(fn: Any) -> Any:
    """A generator of `fn` that has returned."""
    code = fn.__code__
    n = code.co_argcount + code.co_kwonlyargcount
    stars: list[Any] = [empty for flag, empty in ((4, ()), (8, {})) if code.co_flags & flag]
    made = generator(fn, code.co_varnames[:n + len(stars)], (*(None,) * n, *stars))
    if hasattr(made, "close"):
        made.close()
    else:
        with contextlib.suppress(StopIteration):
            made.aclose().send(None)
    return made


# --- rows


def _seq_iter(e: Emitter, v: SeqIterV) -> None:
    seq = v.text or v.seq
    changed = is_list(seq) and seq.real is not None and seq.dirty
    if v.kind == "other" and v.maker is not None:
        _remade(e, v, *v.maker)
        return
    if v.kind == "other" and v.seen:
        raise Unbuildable(v, "an iterator that stands for one of another class")
    if v.since != getattr(seq, "changes", 0) or (changed and seq.cls is not list):
        raise Unbuildable(v, f"an iterator over a {seq.cls.__name__} that has changed since")
    if v.ended:
        e.call(at_end, lambda: e.call(reversed if v.kind == "reversed" else iter, lambda: e.load(_empty(seq))))
    elif changed:  # the list has its items after the side effects
        e.call(reversed if v.kind == "reversed" else iter, lambda: e.load(seq))
    else:
        place = reversed_at if v.kind == "reversed" else iterator_at
        e.call(place, lambda: e.whole(seq), lambda: e.const(v.index))
    e.remember(v)
    if changed and not v.ended:
        e.late.append(lambda: _moved(e, v))


def _remade(e: Emitter, v: SeqIterV, fn: Any, args: list[Value], kwargs: dict[str, Any]) -> None:
    e.call(stepped, lambda: e.call(runtime.call, lambda: e.const(fn), lambda: e.whole(TupleV(args)),
                                   lambda: e.const(tuple(kwargs)), lambda: e.const(tuple(kwargs.values()))),
           lambda: e.const(v.index))
    e.remember(v)


def _moved(e: Emitter, v: SeqIterV) -> None:
    e.call(move_to, lambda: e.load(v), lambda: e.load(v.text or v.seq), lambda: e.const(v.index))
    e.op("POP_TOP")


def _empty(seq: Value) -> Value:
    """An empty sequence of the same class."""
    if is_const(seq):
        return Const(type(seq.value)())
    return ListV([], seq.cls) if is_list(seq) else TupleV([])


def _table(e: Emitter, v: StreamV) -> None:
    table, kind, index = v.parts[0], v.state["kind"], v.state["index"]
    if index >= 0 and not _is_as_it_was(table, v.state["keys"]):
        raise Unbuildable(v, f"an iterator over a {table.cls.__name__} that has changed")
    e.call(table_iterator, lambda: e.whole(table), lambda: e.const(kind), lambda: e.const(index))
    e.remember(v)


def _is_as_it_was(table: Any, keys: list[Any]) -> bool:
    """Whether `keys` are still those of the dict or set, and of the real one before the side effects;
    a new set must also come out in the same order."""
    now = list(table.items)
    if len(now) != len(keys) or any(a is not b for a, b in zip(now, keys)):
        return False
    if isinstance(table, SetV) and table.real is None:
        return list(set(now)) == now
    return table.real is None or (len(table.real) == len(now) and all(a == b for a, b in zip(table.real, now)))


def _slice(e: Emitter, v: StreamV) -> None:
    state, at = v.state, v.state["position"]
    skip = max(state["next"] - at, 0)
    stop = None if state["stop"] is None else max(state["stop"] - at, skip)
    e.call(slice_iterator, lambda: e.load(v.parts[0]), *map(_const(e), (skip, stop, state["step"])))
    e.remember(v)


def _const(e: Emitter) -> Callable[[Any], Callable[[], None]]:
    return lambda x: lambda: e.const(x)


def _call_until(e: Emitter, v: StreamV) -> None:
    if v.fn is None:
        e.call(ended_calls)
    else:
        e.call(iter, lambda: e.load(v.fn), lambda: e.load(v.parts[0]))
    e.remember(v)


def _zip(e: Emitter, v: StreamV) -> None:
    """`zip(*parts)`, whose tuples are of a class of their own where they stand for items that are."""
    def plain() -> None:
        e.call(runtime.call, lambda: e.const(zip), lambda: e.tuple(v.parts),
               lambda: e.const(("strict",)), lambda: e.tuple([Const(bool(v.state.get("strict")))]))

    many = v.state.get("many")
    if many is not None and many.keys:
        leaving_apart(e.cap)
    cls = tuple if many is None else many.cls
    plain() if cls is tuple else e.call(map, lambda: e.const(functools.partial(tuple.__new__, cls)), plain)


STREAMS: dict[str, Callable[[Emitter, Any], None]] = {
    "zip": _zip,
    "enumerate": lambda e, v: e.call(enumerate, lambda: e.load(v.parts[0]), lambda: e.load(v.parts[1].current)),
    "rows": lambda e, v: e.call(reversed_at if v.parts[0].step.value < 0 else iterator_at, lambda: e.load(v.parts[1]),
                                lambda: e.load(v.parts[0].current)),
    "map": lambda e, v: e.call(map, lambda: e.load(v.fn), *e.loads(v.parts)),
    "filter": made(filter, lambda v: v.fn or NONE, lambda v: v.parts[0]),
    "chain": lambda e, v: e.call(itertools.chain, *e.loads(v.parts)),
    "getitem": made(sequence_protocol_iterator, lambda v: v.parts[0], lambda v: Const(v.state["index"])),
    "repeat": made(repeated, lambda v: v.parts[0], lambda v: Const(v.state["left"])),
    "table": _table, "islice": _slice, "call": _call_until,
}


def _stream(e: Emitter, v: StreamV) -> None:
    if "list" in v.state:
        count = counters(v)[0]
        e.call(reversed_at if count.step.value < 0 else iterator_at, lambda: e.whole(v.state["list"]),
               lambda: e.load(count.current))
    else:
        STREAMS[v.kind](e, v)
    if id(v) not in e.temps:
        e.remember(v)


def _generator(e: Emitter, v: GeneratorV) -> None:
    frame = v.frame
    code = frame.code.code
    if code.co_filename == itertools_py.__file__:
        _of_itertools(e, v)
        return
    if v.done:
        e.call(ended_generator, lambda: e.load(frame.function))
    elif v.started:
        _half_consumed(e, v)
        return
    else:
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
                                 + bool(code.co_flags & 8)]
        e.call(generator, lambda: e.load(frame.function), lambda: e.const(names),
               lambda: e.whole(TupleV([frame.locals[n] for n in names])))
    e.remember(v)


def _of_itertools(e: Emitter, v: GeneratorV) -> None:
    """One that has not started is the real one, of the same arguments."""
    code = v.frame.code.code
    real = REAL.get(code)
    if v.started or real is None:
        raise Unbuildable(v, f"an itertools.{code.co_name}")
    names = code.co_varnames[:code.co_argcount]
    only = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    rest = v.frame.locals[code.co_varnames[len(names) + len(only)]].items if code.co_flags & 4 else []
    args = [*(v.frame.locals[n] for n in names), *rest]
    if any(map(_would_notice, args)):
        raise Unbuildable(v, f"an itertools.{code.co_name} over a container that has changed")
    e.call(runtime.call, lambda: e.const(real), lambda: e.whole(TupleV(args)),
           lambda: e.const(only), lambda: e.whole(TupleV([v.frame.locals[n] for n in only])))
    e.remember(v)


def _would_notice(v: Value) -> bool:
    """Whether a given container has changed whose iterators notice that: one that is made before the side effects would
    raise RuntimeError after them. (Those of lists go on behind what they have given.)"""
    shown = v.table if type(v) is ViewV else v
    inside = plain(shown)
    given = getattr(inside, "real", None) if inside.holder is None else getattr(inside.holder, "real", None)
    return given is not None and getattr(inside, "dirty", False) and not (is_list(inside) and inside.cls is list)


REAL = {fn.__code__: real for real, fn in itertools_py.EQUIVALENTS.items()}


def _half_consumed(e: Emitter, v: GeneratorV) -> None:
    """A driver in its place, which is moved there when all that its frame holds can be found."""
    at, code = standing(e.cap, v), v.frame.code.code
    cells = [v.frame.cells[name] for name in (*code.co_cellvars, *code.co_freevars)]
    e.call(generator_plan.begin, lambda: e.load(v.frame.function), lambda: e.const(e.cap.options),
           lambda: e.tuple(cells))
    e.remember(v)
    e.later(lambda: move(e, v, at, generator_plan.move if v.ahead is None else generator_plan.ready))


def move(e: Emitter, v: GeneratorV, at: Standing, how: Any) -> None:
    """Puts the driver that stands for `v` where `v` stands now."""
    given = at.delegate or v.ahead or NONE
    e.call(how, lambda: e.load(v), lambda: e.const(at.key), lambda: e.tuple(at.state), lambda: e.load(given))


def _prepare_generator(w: Writer, v: GeneratorV) -> None:
    """One that exists goes on, once the graph and the side effects before are done."""
    at = standing(w.cap, v)
    target, kept = w.save(v), [w.save(x) for x in at.state]
    waits = w.save(at.delegate or NONE)

    def replay() -> None:
        w.act(generator_plan.move, lambda: w.e.op("LOAD_FAST", target), lambda: w.e.const(at.key),
              lambda: _packed(w.e, kept), lambda: w.e.op("LOAD_FAST", waits))

    w.replays.append(replay)


def _packed(e: Emitter, names: list[str]) -> None:
    for name in names:
        e.op("LOAD_FAST", name)
    e.op("BUILD_TUPLE", len(names))


def _asend(e: Emitter, v: ASendV) -> None:
    if v.value is None:
        raise Unbuildable(v, "what an asynchronous generator is about to give")
    e.call(generator_plan.asend, lambda: e.load(v.gen), lambda: e.load(v.value))
    e.remember(v)


define(SeqIterV, Kind(emit=_seq_iter))
define(CountIterV, Kind(emit=made(count_iterator, lambda v: v.current, lambda v: v.stop or NONE, lambda v: v.step)))
define(StreamV, Kind(emit=_stream))
define(GeneratorV, Kind(emit=_generator, replay=_prepare_generator))
define(ASendV, Kind(emit=_asend))
