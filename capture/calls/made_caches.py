"""`functools.cache` and `lru_cache` on a function that the captured code makes: a wrapper with results of its own.

A call looks into these, and enters the function for what is not there; no graph break. Where the wrapper leaves (it is
returned, alive at a break), replacement code makes one of CPython's that has the same results in the same order, and
has counted as many hits and misses.

    @functools.cache
    def paths(n, left): ...

    paths(0, 3)                # entered, as the calls in it
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.errors import Break, Unbuildable
from dynacomp.capture.calls.cache_layout import FUNCTION, HITS, MISSES, WRAPPER
from dynacomp.capture.calls.calls import BUILTIN_METHODS, BUILTINS
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.constant import Const, is_const, is_known_literal
from dynacomp.capture.values.containers import DictV, ListV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_made_function
from dynacomp.capture.values.value import Value, as_python, is_changing, type_of
from dynacomp.capture.wrapping.object_attrs import no_attribute

SEPARATOR = object()  # in keys: names follow


@dataclass(eq=False)
class CachedV(Value):
    """Such a wrapper. memo: key → (positional arguments, names, named arguments, result). order: those, what was asked
    for longest ago first. counts: hits and misses. table: its `__dict__`."""

    func: Value
    maxsize: int | None
    typed: bool
    memo: DictV = field(default_factory=lambda: DictV({}))
    order: ListV = field(default_factory=lambda: ListV([]))
    counts: ListV = field(default_factory=lambda: ListV([Const(0), Const(0)]))
    table: DictV = field(default_factory=lambda: DictV({}))


def _make(cap: Capture, func: Value, maxsize: Value, typed: Value, info: Value) -> Value:
    """`_lru_cache_wrapper(func, maxsize, typed, _CacheInfo)`."""
    if None in (FUNCTION, HITS, MISSES) or not (is_made_function(func) and type_of(maxsize) in (int, types.NoneType)):
        raise Break("call", "class functools._lru_cache_wrapper")
    size = as_python(maxsize)
    return CachedV(func, None if size is None else max(size, 0), truth(cap, typed))


def _count(cap: Capture, cached: CachedV, which: int) -> None:
    mutating(cap, cached.counts)
    counts = cached.counts.items
    counts[which] = Const(as_python(counts[which]) + 1)


def _call(cap: Capture, cached: CachedV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Asks for the key as often as CPython does, for that may run code of the program's."""
    if cached.maxsize == 0:
        _count(cap, cached, 1)
        return cap.call(cached.func, args, kwargs)
    key, bounded = _key(cached, args, kwargs), cached.maxsize is not None
    found = _get(cap, cached, key)
    if found is not None:
        _count(cap, cached, 0)
        mutating(cap, cached.order)
        cached.order.items.remove(found)
        cached.order.items.append(found)
        return found.items[3]
    _count(cap, cached, 1)
    result = cap.call(cached.func, args, kwargs)
    if bounded and _get(cap, cached, key) is not None:  # a call within the call has put it there
        return result
    mutating(cap, cached.order)
    if bounded and len(cached.order.items) >= cached.maxsize:  # type: ignore[operator]
        _forget(cap, cached, cached.order.items.pop(0))
    entry = TupleV([TupleV(args), Const(tuple(kwargs)), TupleV(list(kwargs.values())), result])
    put: Any = kind(cached.memo).setitem
    put(cap, cached.memo, key, entry)
    cached.order.items[:] = [x for x in cached.order.items if _is_in(cached.memo, x)] + [entry]
    return result


def _key(cached: CachedV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The key under which CPython would keep a call."""
    named = [x for name, value in kwargs.items() for x in (Const(name), value)]
    parts = [*args, *([Const(SEPARATOR), *named] if kwargs else [])]
    if cached.typed:
        parts += [Const(type_of(x)) for x in (*args, *kwargs.values())]
    return args[0] if len(parts) == 1 and type_of(args[0]) in (int, str) else TupleV(parts)


def _get(cap: Capture, cached: CachedV, key: Value) -> Any:
    found = cap.call(BuiltinMethodV(cached.memo, "get"), [key, Const(None)], {})
    return None if is_const(found) else found


def _is_in(memo: DictV, entry: Value) -> bool:
    return any(x is entry for x in memo.items.values())


def _forget(cap: Capture, cached: CachedV, entry: Value) -> None:
    mutating(cap, cached.memo)
    cached.memo.items.pop(next(k for k, x in cached.memo.items.items() if x is entry))


def _info(cap: Capture, cached: CachedV) -> Value:
    counts = [*cached.counts.items, Const(cached.maxsize), Const(len(cached.memo.items))]
    return cap.call(Const(functools._CacheInfo), counts, {})  # type: ignore[attr-defined]


def _clear(cap: Capture, cached: CachedV) -> Value:
    mutating(cap, cached.counts)
    cached.counts.items[:] = [Const(0), Const(0)]
    mutating(cap, cached.memo)
    cached.memo.items.clear()
    mutating(cap, cached.order)
    cached.order.items.clear()
    return Const(None)


def _getattr(cap: Capture, cached: CachedV, name: str) -> Value:
    if name in cached.table.items:
        return cached.table.items[name]
    if name == "__dict__":
        return cached.table
    if (CachedV, name) in BUILTIN_METHODS:
        return BuiltinMethodV(cached, name)
    if not hasattr(WRAPPER, name):
        raise no_attribute(WRAPPER.__qualname__, name)
    raise Break("attribute", f"{name!r} of a cached function")


def _setattr(cap: Capture, cached: CachedV, name: str, value: Value) -> None:
    if name == "__dict__":
        raise Break("store", "a store to the __dict__ of a cached function")
    mutating(cap, cached.table)
    cached.table.items[name] = value


def _emit(e: Emitter, cached: CachedV) -> None:
    entries = cached.order.items
    if not all(is_known_literal(x) or is_changing(x) for entry in entries
               for x in (*entry.items[0].items, *entry.items[2].items)):
        raise Unbuildable(cached, "a cached function that was given what is no constant")
    e.call(new_wrapper, partial(e.const, (cached.maxsize, cached.typed)))
    e.remember(cached)
    e.later(lambda: e.call(fill_wrapper, lambda: e.load(cached), lambda: e.load(cached.func),
                           lambda: e.whole(TupleV(entries)), lambda: e.tuple(cached.counts.items),
                           lambda: e.whole(cached.table)))


def new_wrapper(form: tuple[int | None, bool]) -> Any:
    """A wrapper of nothing yet; its function comes with `fill_wrapper`, for that may lead back to it."""
    return WRAPPER(_unfilled, *form, functools._CacheInfo)  # type: ignore[attr-defined,call-arg]


def _unfilled(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("a cached function without its function")


def fill_wrapper(wrapper: Any, function: Any, entries: tuple, counts: tuple[int, int], table: dict[str, Any]) -> None:
    """Makes a wrapper of this function, which has these results."""
    for args, names, values, result in entries:
        FUNCTION.__set__(wrapper, lambda *args, **kwargs: result)  # noqa: B023
        wrapper(*args, **dict(zip(names, values)))
    FUNCTION.__set__(wrapper, function)
    HITS.__set__(wrapper, counts[0])
    MISSES.__set__(wrapper, counts[1])
    wrapper.__dict__.update(table)


BUILTINS[WRAPPER] = _make
BUILTIN_METHODS[CachedV, "cache_info"] = _info
BUILTIN_METHODS[CachedV, "cache_clear"] = _clear
define(CachedV, Kind(python_type=lambda v: WRAPPER, getattr=_getattr, setattr=_setattr, call=_call, emit=_emit))
