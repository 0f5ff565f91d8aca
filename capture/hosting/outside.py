"""What code can change besides its arguments, as it was before it started: watched, and put back.

    outside = Outside()
    outside.keep([cell.cell_contents for cell in fn.__closure__], names_in(fn.__code__))
    fn()                                      # on tracers
    outside.restore()                         # True where fn has changed something: all is as it was again

Containers, NumPy arrays, objects, classes and modules of the program are watched. Of the attributes of objects those
are followed that code names, once some does: a function that starts later may be given the object. What changes by
being used and cannot be put back is refused before it is: an iterator, an open file, a random generator. What
`functools.lru_cache` keeps is like what was computed: it stays, unless the rest is put back, or something of the trace
stands in it.
"""

from __future__ import annotations

import collections
import functools
import gc
import logging
import operator
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import entries, fields, module_name, own_dict, slots
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.capture.hosting.outward import is_open_file
from dynacomp.capture.symbolic.libraries import is_steady_module
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.immutability import is_python_class

MAX_KEPT = 1 << 16  # containers that are watched during one call: some tenths of a second
MAX_COPIED = 1 << 26  # bytes of one NumPy array: such a one is no state that code changes in place while JAX traces
KINDS = (dict, list, set, collections.deque)


class Outside:
    """What functions that a library runs can change besides their arguments, as it was before they started."""

    def __init__(self) -> None:
        self.was: dict[int, tuple[Any, Any, Watch]] = {}  # by identity: what is watched, what stood in it, and how
        self.names: set[str] = set()  # that the functions so far have
        self.unnamed: dict[str, list[Any]] = {}  # by name, what stands in attributes that none of them names
        self.caches: dict[int, tuple[dict[Any, Any], set[int]]] = {}  # by identity, with those of the keys in it

    def keep(self, roots: Iterable[Any], names: Collection[str]) -> None:
        """Remember what can change among `roots` and in it, and the objects' attributes: of these the ones with `names`
        are followed, also of what was remembered before. Break where there is too much to watch, or what cannot be put
        back."""
        todo = list(roots)
        for name in set(names) - self.names:
            todo += self.unnamed.pop(name, ())
        self.names.update(names)
        while todo:
            if len(self.was) > MAX_KEPT:
                raise Break("effect", f"code that a library runs reaches more than {MAX_KEPT} containers")
            self._keep_one(todo.pop(), todo)

    def _keep_one(self, at: Any, todo: list[Any]) -> None:
        if changes_unseen(at):
            raise Break("effect", f"code that a library runs reaches what changes when it is used: {type(at).__name__}")
        if id(at) in self.was:
            return
        watch = _watch(at)
        if type(at) is functools._lru_cache_wrapper:
            kept = _cache_of(at)
            self.caches.setdefault(id(kept), (kept, set(map(id, kept))))
        if watch is not None:
            self.was[id(at)] = at, watch.parts(at), watch
        todo += _within(at)
        for name, held in _attributes(at).items():
            if name in self.names or isinstance(held, KINDS) and watch is _OBJECT:
                todo.append(held)
            else:
                self.unnamed.setdefault(name, []).append(held)

    def changed(self) -> list[tuple[Any, Any, Watch]]:
        """What has changed, with what stood in it."""
        return [(at, parts, watch) for at, parts, watch in self.was.values() if not watch.same(at, parts)]

    def restore(self, refused: bool = False) -> bool:
        """Put everything back; whether anything had changed. refused: whether the code will run again anyway."""
        changed = bool(self.changed())
        added = [(kept, key) for kept, keys in self.caches.values() for key in list(kept) if id(key) not in keys]
        traced = any(holds_tracers(part) for kept, key in added for part in (key, kept[key]))
        for at, parts, watch in self.changed():
            watch.put_back(at, parts)
        for kept, key in added if changed or refused or traced else ():
            kept.pop(key, None)
        return changed or traced


def _cache_of(cached: Any) -> dict[Any, Any]:
    """Where `functools.lru_cache` keeps results. It does not mind when some are gone."""
    found = (held for held in gc.get_referents(cached) if type(held) is dict and held is not cached.__dict__)
    return next(found, {})


def holds_tracers(made: Any) -> bool:
    """Whether a tracer or a symbolic size stands in what was noted, or in a container of it."""
    todo, seen = [made], set()
    while todo:
        at = todo.pop()
        if isinstance(at, jax.core.Tracer) or is_symbolic(at):
            return True
        if id(at) not in seen:
            seen.add(id(at))
            todo.extend(inside_container(at) or ())
    return False


def inside_container(at: Any) -> tuple[Any, ...] | None:
    return parts_of(at) if isinstance(at, KINDS) else tuple(tuple.__iter__(at)) if isinstance(at, tuple) else None


def changes_unseen(obj: Any) -> bool:
    """Whether using it changes it in a way that nobody can put back: an iterator that C code or a generator is, an open
    file, a random generator, what each thread has for itself."""
    cls: Any = type(obj)
    if is_open_file(obj) or issubclass(cls, threading.local):
        return True
    if module_name(cls) == "random" or module_name(cls).startswith("numpy.random."):
        return not callable(obj)
    return not is_python_class(cls) and hasattr(cls, "__next__")


def _within(at: Any) -> Iterable[Any]:
    """What is used with `at`, whatever its name: what stands in a container, what a method or a partial is bound to,
    the class of an object."""
    cls: Any = type(at)
    if isinstance(at, KINDS):
        return parts_of(at)
    if issubclass(cls, functools.partial):
        return (*at.args, *at.keywords.values())
    if issubclass(cls, (types.MethodType, types.BuiltinMethodType)):
        return (at.__self__,)
    return (cls,) if is_plain_instance(at) else ()


def _attributes(at: Any) -> dict[str, Any]:
    """Those of the program's objects, modules, classes and functions, by name."""
    watch = _watch(at)
    if watch is _OBJECT:
        return fields(at)
    return dict(entries(at) if watch is _CLASS else own_dict(at)) if watch in (_CLASS, _TABLE) else {}


# --- how one kind of thing is watched


@dataclass(frozen=True)
class Watch:
    """What stands in a thing, whether that still does, and how it is put back."""

    parts: Callable[[Any], Any]
    same: Callable[[Any, Any], bool]
    put_back: Callable[[Any, Any], None]


def _watch(at: Any) -> Watch | None:
    """How `at` is watched; None where it cannot change, or is the affair of a library."""
    cls: Any = type(at)
    if isinstance(at, KINDS):
        return _CONTAINER
    if issubclass(cls, np.ndarray):
        return _ARRAY if at.nbytes <= MAX_COPIED and at.flags.writeable else None
    if issubclass(cls, bytearray):
        return _BYTES
    if issubclass(cls, types.ModuleType):
        return None if is_steady_module(at.__name__) else _TABLE
    if issubclass(cls, types.FunctionType):
        return None if is_steady_module(at.__globals__.get("__name__")) else _TABLE
    if issubclass(cls, type):
        return _CLASS if is_python_class(at) and not is_steady_module(module_name(at)) else None
    if issubclass(cls, logging.Logger) or not is_plain_instance(at):  # a logger caches levels
        return None
    return _OBJECT


def parts_of(at: Any) -> tuple[Any, ...]:
    """What stands in a container, past methods of the program's: a dict's keys and then its values."""
    if isinstance(at, dict):
        return (*dict.keys(at), *dict.values(at))
    return tuple(next(kind for kind in KINDS if isinstance(at, kind)).__iter__(at))


def same(parts: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(parts) == len(others) and all(map(operator.is_, parts, others))


def put_back(at: Any, parts: tuple[Any, ...]) -> None:
    """Makes a container hold `parts` again."""
    kind: Any = next(k for k in (collections.OrderedDict, *KINDS) if isinstance(at, k))
    kind.clear(at)
    if isinstance(at, dict):
        half = len(parts) // 2
        kind.update(at, zip(parts[:half], parts[half:]))
    else:
        (kind.update if kind is set else kind.extend)(at, parts)


def _in_object(obj: Any) -> tuple[Any, ...]:
    return (*parts_of(own_dict(obj)), *(part for _, part in _in_slots(obj)))


def _in_slots(obj: Any) -> list[tuple[types.MemberDescriptorType, Any]]:
    return [(slot, in_slot(slot, obj)) for _, slot in slots(type(obj))]


def in_slot(slot: Any, obj: Any) -> Any:
    """What a slot holds; EMPTY where that is nothing."""
    try:
        return slot.__get__(obj)
    except AttributeError:
        return EMPTY


EMPTY = object()


def put_slots(obj: Any, held: Iterable[tuple[Any, Any]]) -> None:
    """Makes slots hold what they did."""
    for slot, part in held:
        if in_slot(slot, obj) is not part:
            slot.__delete__(obj) if part is EMPTY else slot.__set__(obj, part)


def _object_again(obj: Any, parts: tuple[Any, ...]) -> None:
    own, held = len(parts) - len(slots(type(obj))), [slot for _, slot in slots(type(obj))]
    if not same(parts_of(own_dict(obj)), parts[:own]):
        put_back(own_dict(obj), parts[:own])
    put_slots(obj, zip(held, parts[own:]))


def _in_class(cls: type) -> tuple[Any, ...]:
    own = {name: held for name, held in entries(cls).items() if name not in OF_PYTHON}
    noted = own.pop(FIELDS, {})
    return parts_of({**own, **{sys.intern(f"{FIELDS}.{name}"): field for name, field in noted.items()}})


OF_PYTHON = frozenset({"__doc__", "__annotations__", "__abstractmethods__", "_abc_impl"})  # Python fills some late
FIELDS = "__dataclass_fields__"  # Flax puts another dict of the same ones there whenever it derives a class


def _class_again(cls: type, parts: tuple[Any, ...]) -> None:
    half = len(parts) // 2
    was = dict(zip(parts[:half], parts[half:]))
    noted = {name.removeprefix(f"{FIELDS}."): was.pop(name) for name in [*was] if name.startswith(f"{FIELDS}.")}
    if noted:
        was[FIELDS] = noted
    for name in entries(cls).keys() - was.keys() - OF_PYTHON - {FIELDS}:
        type.__delattr__(cls, name)
    for name, held in was.items():
        now = entries(cls).get(name, was)
        if now is not held and (name != FIELDS or now != held):
            type.__setattr__(cls, name, held)


def _same_array(at: np.ndarray, was: np.ndarray) -> bool:
    return at.shape == was.shape and at.tobytes() == was.tobytes()


_CONTAINER = Watch(parts_of, lambda at, was: same(parts_of(at), was), put_back)
_OBJECT = Watch(_in_object, lambda at, was: same(_in_object(at), was), _object_again)
_TABLE = Watch(lambda at: parts_of(own_dict(at)), lambda at, was: same(parts_of(own_dict(at)), was),
               lambda at, was: put_back(own_dict(at), was))  # a module or a function
_CLASS = Watch(_in_class, lambda cls, was: same(_in_class(cls), was), _class_again)
_ARRAY = Watch(np.ndarray.copy, _same_array, lambda at, was: np.ndarray.__setitem__(at, ..., was))
_BYTES = Watch(bytes, lambda at, was: bytes(at) == was, lambda at, was: bytearray.__setitem__(at, slice(None), was))
