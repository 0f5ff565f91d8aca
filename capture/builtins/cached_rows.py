"""Calls of `functools.lru_cache` and `functools.cache`: what the cache has is read from it, by guards too.

What the cache does not have yet, Python computes: the graph breaks, and the entry that ends there is good for as long
as it stays so. What it has is found as other objects that exist are, by a path (wrapper → dict → result), so that
the object is the very one that a call gives; the call itself is made once the Graph has run, for the cache counts its
hits and remembers which key was used last. No code of the program runs in any of this.

    @functools.cache
    def mask(n): ...

    x * mask(4)        # an input of the Graph: mask.cache[4]
"""

from __future__ import annotations

import types
from typing import Any, NamedTuple

import numpy as np

from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.builtins.warning_rows import said_first
from dynacomp.capture.calls.cache_layout import CACHE, MARK, RESULT, WRAPPER
from dynacomp.capture.calls.calls import BY_TYPE
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.libraries import is_library, is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import SETTLED
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.constant import Const, is_const, is_open
from dynacomp.capture.values.questions import is_plain_tuple, is_value
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import WRAPPERS, one_object, opaque, wrap
from dynacomp.capture.wrapping.object_attrs import DESCRIPTORS

NAMES = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.dtype)  # what is a key by its identity
METACLASSES = (type, type(type(np.dtype(bool))))  # whose classes are, too: NumPy's classes of dtypes


MISSING: Any = object()


def key_of(wrapper: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The key under which a call is kept."""
    key = tuple(args) + ((MARK, *(x for pair in kwargs.items() for x in pair)) if kwargs else ())
    if wrapper.cache_parameters()["typed"]:
        return key + tuple(map(type, (*args, *kwargs.values())))
    return args[0] if len(key) == 1 and type(args[0]) in (int, str) else key


# --- calls


class Absent(NamedTuple):
    """What a cache had nothing under when the graph broke for that."""

    source: S.Source
    key: Any


def absent(cap: Capture) -> None:
    """An entry that breaks the graph where a cache has no result is not to outlive that."""
    for place in cap.lessons.results:
        if type(place) is Absent:
            cap.guards.add("missing_key", place.source, place.key)


def cached_call(cap: Capture, fn: Const, *args: Value, **kwargs: Value) -> Value:
    wrapper: Any = fn.value
    if is_library(wrapper):
        return library_call(cap, wrapper, list(args), kwargs)
    name = getattr(wrapper, "__qualname__", "?")
    lasts = _lives_long(wrapper.__wrapped__)
    if CACHE is None or RESULT is None or not lasts and fn.source is None:
        raise Break("call", f"{name}, whose results are cached")
    if not all(map(_is_key, (*args, *kwargs.values()))):
        raise Break("call", f"{name}, whose results are cached, with arguments that are no constants")
    if any(b.is_side for b in cap.bodies):
        raise Break("effect_in_body", f"a call of {name}, whose results are cached, that may not happen")
    key = key_of(wrapper, [_plain(a) for a in args], {k: _plain(v) for k, v in kwargs.items()})
    source = S.Slot(S.Root(wrapper, name) if lasts or fn.source is None else fn.source, "cache", CACHE)
    found = CACHE.__get__(wrapper).get(key, MISSING)
    if found is MISSING:
        cap.lessons.results[Absent(source, key)] = None
        raise Break("call", f"{name}, whose result for these arguments is not cached yet")
    if not cap.bodies or said_first(cap):
        cap.effects.call(runtime.call_only, [fn, *args], kwargs)
    at: S.Source = S.Key(source, key)
    if wrapper.cache_parameters()["maxsize"] is not None:
        at, found = S.Slot(at, "result", RESULT), RESULT.__get__(found)
    if at not in cap.known.functions:
        cap.known.functions[at] = wrap(cap, found, at)
    return cap.known.functions[at]


def _is_key(value: Value) -> bool:
    """Whether an argument is a constant whose hash and equality are no code of the program's."""
    if is_plain_tuple(value):
        return all(is_value(x) and _is_key(x) for x in value.items)
    if not is_const(value) or is_open(value):
        return False
    obj: Any = value.value
    if not _lives_long(obj):
        return False
    return is_literal(obj) or isinstance(obj, NAMES) or type(obj) in METACLASSES or (
        is_pure_module(module_name(type(obj))))


def _lives_long(obj: Any) -> bool:
    """Whether a guard may name an object, which keeps it alive: not a method of an object, or what a function made."""
    return not isinstance(obj, types.MethodType) and "<locals>" not in str(getattr(obj, "__qualname__", ""))


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value.items)) if is_plain_tuple(value) else value.value


def _bound(cap: Capture, raw: Any, value: Value) -> Value:
    """A cached function in a class binds as others do."""
    return MethodV(Const(raw), value)


def _existing(cap: Capture, wrapper: Any, source: S.Source) -> Value:
    """One that comes with the call: where each call has brought another, none is worth an entry, and Python asks it."""
    mark = Mark(wrapper)
    if S.belongs_to_call(source) and not is_library(wrapper) and cap.root.policy.scalar(source, mark):
        return opaque(cap, wrapper, source)
    cap.numbers.scalars[source] = mark
    return one_object(cap, wrapper, source)


SETTLED.append(absent)
WRAPPERS[WRAPPER] = _existing
BY_TYPE[WRAPPER] = cached_call
DESCRIPTORS.append((WRAPPER, _bound))
