"""Dicts and sets that the code was given, and the keys in them, which may hash and compare in the program's code."""

from __future__ import annotations

import collections
import enum
import functools
import types
import weakref
from collections.abc import Iterable
from typing import Any, cast

from dynacomp.capture._native import iterated, known_hashes, set_layout
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.key_order import ByName
from dynacomp.capture.base.literals import is_literal, is_plain_key
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.containers import DictV, SetV
from dynacomp.capture.values.standing import HashedV, bare
from dynacomp.capture.values.value import Lazy, Value
from dynacomp.capture.wrapping.alike_classes import guard_type
from dynacomp.capture.wrapping.builder import WRAPPERS, is_plain_instance, opaque, wrap
from dynacomp.capture.wrapping.builtin_subclasses import inherits, own_iter, own_values
from dynacomp.capture.wrapping.changing_contents import in_parts, reading
from dynacomp.capture.wrapping.partial_tables import ClassEntries, Entries

SORTED = (dict, collections.defaultdict)  # what JAX takes apart by its keys, whatever their order


def _dict(cap: Capture, obj: Any, source: S.Source) -> Value:
    if any(table == id(obj) for table, _ in cap.effects.globals):
        raise Break("opaque", "the globals of a module that the captured code has changed")
    if id(obj) in cap.known.tables:
        return opaque(cap, obj, source)
    guard_type(cap, type(obj), source)
    names, values = _entries(obj)
    if in_parts(cap, source) and may_be_in_parts(type(obj)) and all(map(is_plain_key, names)):
        items: dict[Any, Any] = Entries(cap, obj, source)
    else:
        reading(cap, source)
        _refuse_references(names)
        free = type(obj) in SORTED and len(names) > 1 and all(type(name) is str for name in names)
        cap.guards.add("names" if free else "keys", source, names)
        keys = _keys(cap, obj, names)
        items = {key: Lazy(x, S.KnownKey(source, k, key.digest) if isinstance(key, HashedV) else S.Key(source, k))
                 for k, key, x in zip(names, keys, values)}
        if free:
            items = ByName(items, functools.partial(cap.guards.add, "keys", source, names))
    factory = DEFAULT_FACTORY.__get__(obj) if isinstance(obj, collections.defaultdict) else None
    wrapped = wrap(cap, factory, S.Get(source, "default_factory")) if factory is not None else None
    return DictV(items, type(obj), real=obj, factory=wrapped, source=source)


def may_be_in_parts(cls: type) -> bool:
    """Whether C code can ask a dict for parts, past what its class overrides: guards take its `len`."""
    ordered = issubclass(cls, collections.OrderedDict)
    return cls in (dict, collections.defaultdict, collections.OrderedDict) or not ordered and inherits(cls, "__len__")


def _shown(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A mappingproxy has the entries of the dict behind it, whoever changes those. What stands in a class is guarded
    where it is looked up."""
    table = iterated(obj)
    if type(table) not in (dict, collections.OrderedDict):
        return opaque(cap, obj, source)
    cap.guards.add("is_type", source, type(obj))
    if "__doc__" in table and all(type(name) is str for name in table):
        return DictV(ClassEntries(cap, table, S.Iterated(source)), type(obj), real=obj, source=source)
    shown = cast(DictV, wrap(cap, table, S.Iterated(source)))
    shown.is_shown = True
    return DictV(shown.items, type(obj), real=obj, source=source)


DEFAULT_FACTORY: Any = collections.defaultdict.__dict__["default_factory"]


def hashes_itself(key: Any) -> bool:
    """A key whose hash or equality is the program's code: dicts and sets must not ask the real object."""
    if type(key) in (tuple, frozenset):
        return any(map(hashes_itself, key))
    cls: Any = type(key)
    if issubclass(cls, (enum.Enum, type)) or is_pure_module(module_name(cls)):
        return False
    return not (isinstance(cls.__hash__, OF_C) and isinstance(cls.__eq__, OF_C))


OF_C = (types.WrapperDescriptorType, types.NoneType)  # what __hash__ and __eq__ are that run no code of the program


def _refer_weakly(keys: Iterable[Any]) -> None:
    """Break where guards could not tell these keys (elements) without keeping objects alive."""
    if any(map(_holds_objects, keys)):
        raise Break("opaque", "a set or dict with tuples of objects in it, which no guard can refer to weakly")


def _refuse_references(keys: Iterable[Any]) -> None:
    """Break for weak references: whoever compares two compares their objects, which runs the program's code."""
    if any(issubclass(type(key), weakref.ref) for key in keys):
        raise Break("opaque", "a set or dict of weak references")


def _holds_objects(key: Any) -> bool:
    return type(key) in (tuple, frozenset) and any(_holds_objects(x) or _may_die(x) for x in key)


def _may_die(obj: Any) -> bool:
    """Whether that is an object of the program, which finalizers and weak references see die."""
    cls: Any = type(obj)
    return not issubclass(cls, enum.Enum) and is_plain_instance(obj) and not is_pure_module(module_name(cls))


def _entries(obj: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The keys and the values of a dict. An OrderedDict that methods of dict have changed knows neither."""
    try:
        return tuple(own_iter(obj)), tuple(own_values(obj))
    except ours(KeyError, RuntimeError):
        raise Break("opaque", f"a {type(obj).__qualname__} whose order is broken") from None


def _keys(cap: Capture, table: Any, keys: tuple[Any, ...]) -> list[Any]:
    """The keys of a real dict (the elements of a set) as `DictV.items` has them (see `keys.hashable`)."""
    if not any(map(hashes_itself, keys)):
        return list(keys)
    digests = {id(k): digest for k, digest in known_hashes(table)}
    return [HashedV(wrap(cap, k, S.KeyObject(k, f"<key {type(k).__qualname__}>")), digests[id(k)], functools.partial(
        OPERATIONS.equal, cap)) if hashes_itself(k) else k for k in keys]


def _read(cap: Capture, source: S.Source, elements: tuple[Any, ...]) -> None:
    """Guards what a set holds."""
    reading(cap, source)
    cap.guards.add("set", source, elements)


def _lay(cap: Capture, obj: Any, source: S.Source) -> None:
    """Guards how a set is laid out."""
    cap.guards.add("set_layout", source, set_layout(obj))


def _set(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("is_type", source, type(obj))
    elements = tuple(own_iter(obj))
    if type(obj) in (set, frozenset) and all(map(is_literal, elements)):
        return SetV(obj, type(obj), real=obj, source=source, unread=functools.partial(_read, cap, source, elements),
                    unlaid=functools.partial(_lay, cap, obj, source))
    reading(cap, source)
    _refuse_references(elements)
    _refer_weakly(elements)
    cap.guards.add("set", source, elements)
    if any(map(hashes_itself, elements)):
        made = type(obj)(_keys(cap, obj, elements)) if type(obj) in (set, frozenset) else set()
        if [k if bare(k) is k else getattr(bare(k), "real", None) for k in made] != list(elements):
            raise Break("opaque", "a set whose elements stand in an order of their own")
        return SetV(made, type(obj), real=obj, source=source)
    return SetV(obj, type(obj), real=obj, source=source, unlaid=functools.partial(_lay, cap, obj, source))


WRAPPERS.update({dict: _dict, collections.OrderedDict: _dict, collections.defaultdict: _dict,
                 types.MappingProxyType: _shown, set: _set, frozenset: _set})
