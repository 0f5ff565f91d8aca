"""Keys: what Values are as dict keys and set elements, and where dicts get their entries from.

`hashable` gives the Python object that stands for a Value in `DictV.items` and `SetV.items`; `pairs`
reads a mapping or an iterable of pairs, `elements_of` any iterable, in terms of such keys.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.hashes import note_hashes
from dynacomp.capture.kinds import given_items
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.libraries import steady_library
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.undo_log import Watch
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import FunctionV, MethodV
from dynacomp.capture.values.computed import SizeV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.iterators import CountIterV, GeneratorV, GivenIterV, SeqIterV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import CellV, ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_dict, is_value, own_class
from dynacomp.capture.values.standing import ClassOfTracedV, HashedV, IdV
from dynacomp.capture.values.value import NotConstant, Value, as_python, existing
from dynacomp.capture.wrapping.builder import is_plain_instance, items_of, realize
from dynacomp.capture.wrapping.builtin_subclasses import BASES, items_payload
from dynacomp.capture.wrapping.class_attrs import name_in_errors, resolve
from dynacomp.capture.wrapping.class_prototypes import refuse
from dynacomp.capture.wrapping.constants import opened
from dynacomp.capture.wrapping.immutability import TREEDEF, says_literals
from dynacomp.capture.wrapping.keyed_tables import ChangingKey


def raised(kind: type[BaseException], *args: Any) -> Raised:
    """What to raise where the program raises `kind(*args)`."""
    return Raised(Const(kind(*args)))


def hashable(cap: Capture, value: Value) -> Any:
    """The Python object that a Value is as a dict key. Objects with a hash of their own become
    `HashedV`s; those that hash by identity are their own key."""
    row = kind(value).key
    return _constant_key(value) if row is None else row(cap, value)


def sought(cap: Capture, key: Value, names: Iterable[Any]) -> Any:
    """`hashable(cap, key)`, to be looked for among these keys. The class of a value that JAX may trace is one of JAX's:
    where one of its tracers' classes is among them, Python has to look."""
    if isinstance(key, ClassOfTracedV) and any(isinstance(k, type) and issubclass(k, jax.core.Tracer) for k in names):
        raise Break("tracer", "the class of a value that a transformation may trace")
    return hashable(cap, key)


def key_of(cap: Capture, value: Value) -> Any:
    """`hashable(cap, value)`, or a ChangingKey where another call may have another key."""
    asked = given_items.changing_key(cap, value, given_items.STORED_KEYS)
    return hashable(cap, value) if asked is None else ChangingKey(value, asked, lambda: hashable(cap, value))


def _known_key(value: Value) -> Any:
    """That of what is constant throughout, else NotConstant."""
    try:
        key = as_python(value)
        hash(key)
    except TypeError as error:
        raise Raised(Const(error)) from None
    return key


def _constant_key(value: Value) -> Any:
    try:
        return _known_key(value)
    except NotConstant:
        raise Break("hash", "a key that holds an array") from None


def _const_key(cap: Capture, value: Const) -> Any:
    if issubclass(type(peek(value)), weakref.ref):
        raise Break("hash", "a weak reference, whose hash and equality are those of its object")
    if type(peek(value)) is TREEDEF and not says_literals(peek(value)):
        raise Break("hash", "a tree structure, whose hash and equality are those of the objects that it keeps")
    return _constant_key(value)


def _tuple_key(cap: Capture, value: TupleV) -> Any:
    for item in value.items:
        if is_const(item) and type(peek(item)) is TREEDEF:
            hashable(cap, item)
    try:
        return _known_key(value)
    except NotConstant:
        parts = tuple(hashable(cap, x) for x in items_of(cap, value))
        return HashedV(value, hash(parts), _same(cap), any(map(is_by_id, parts)))


def _set_key(cap: Capture, value: SetV) -> Any:
    return _constant_key(value) if value.cls is frozenset else _unhashable(cap, value)


def _unhashable(cap: Capture, value: Any) -> Any:
    raise raised(TypeError, f"unhashable type: {name_in_errors(value.cls)!r}")


def _opaque_key(cap: Capture, value: OpaqueV) -> Any:
    return _by_identity(cap, value) if type(value.obj).__hash__ is object.__hash__ else _constant_key(value)


@dataclass(frozen=True)
class Identity(S.Source):
    """Which object is at `base`."""

    base: S.Source


def _by_identity(cap: Capture, value: Any) -> Any:
    """An object that hashes by its id: another one in its place is another key."""
    real = existing(value)
    if real is not None and value.source is not None:
        if cap.may_break and S.belongs_to_call(value.source) and cap.root.policy.changes_often(Identity(value.source)):
            raise Break("identity", "an object that hashes by its id, another one in each call")
        cap.guards.add("is", value.source, real)
    return value if real is None else real


def _object_key(cap: Capture, value: ObjectV) -> Any:
    owner, raw = resolve(cap, value.cls, "__hash__")
    if raw is None:
        raise raised(TypeError, f"unhashable type: {name_in_errors(value.cls)!r}")
    if isinstance(raw, types.WrapperDescriptorType) and raw.__objclass__ in BASES:
        return HashedV(value, hash(hashable(cap, value.payload)), _same(cap))
    if isinstance(raw, types.WrapperDescriptorType):
        return _by_identity(cap, value)
    cap.libraries.hashing.append(False)
    try:
        with hashing_alone(cap):
            found = as_python(cap.call(cap.special(value, "__hash__"), []))  # type: ignore[arg-type]
    finally:
        by_id = cap.libraries.hashing.pop()
    if not isinstance(found, int):
        raise raised(TypeError, "__hash__ method should return an integer")
    return HashedV(value, digest_of(found), _same(cap), by_id)


@contextlib.contextmanager
def hashing_alone(cap: Capture) -> Iterator[None]:
    """A `__hash__` asks for hashes to make another of them, and that says no more of a key than which one it is. But
    where it raises, or changes what is older (it keeps its hash, say), a hash of this process may be seen."""
    watch, calls = Watch(), len(cap.effects.calls)
    cap.effects.watches.append(watch)
    try:
        yield
    except BaseException:
        note_hashes(by_address=True)
        raise
    finally:
        cap.effects.watches.remove(watch)
    if watch.changed or len(cap.effects.calls) > calls:
        note_hashes(by_address=True)


def is_by_id(key: Any) -> bool:
    """Whether the hash of a key depends on where its object lies in memory."""
    plain = is_value(key) or (is_plain_instance(key) and type(key).__hash__ is object.__hash__)
    return getattr(key, "by_id", plain) if is_value(key) else plain


def hash_value(cap: Capture, value: Value) -> Value:
    """`hash(value)`. One that depends on addresses may only become part of another hash."""
    refuse(cap, [value], "the hash")
    key = hashable(cap, value)
    if key != key and type(key) in (float, complex):
        raise Break("identity", "hash() of a NaN, which depends on its id")
    if is_by_id(key):
        if not cap.libraries.hashing:
            raise Break("identity", "hash() of an object that hashes by its id")
        cap.libraries.hashing[-1] = True
    return Const(hash(key))


def digest_of(found: int) -> int:
    """The hash that Python makes of what a `__hash__` method gives: only too big an int is hashed itself."""
    fits = -sys.maxsize - 1 <= found <= sys.maxsize
    return hash(found) if not fits else -2 if found == -1 else found + 0


def _same(cap: Capture) -> Any:
    return lambda a, b: equal(cap, a, b)


def pairs(cap: Capture, source: Value) -> list[tuple[Any, Value]]:
    """Key-value pairs of a mapping or an iterable of pairs."""
    return list(each_pair(cap, source))


def each_pair(cap: Capture, source: Value) -> Iterator[tuple[Any, Value]]:
    """The same, those of an iterable one by one: a generator may look at what is done with them."""
    source = opened(cap, source) if is_const(source) else source
    if is_dict(source):
        yield from [(k, realize(cap, x)) for k, x in source.items.items()]
        return
    content = items_payload(source)
    if is_dict(content) and content.cls is not collections.OrderedDict:
        yield from pairs(cap, content)
        return
    if hasattr(own_class(source), "keys"):
        keys = list(iterate(cap, cap.call(cap.getattr(source, "keys"), [])))
        yield from [(key_of(cap, k), cap.call(cap.getattr(source, "__getitem__"), [k])) for k in keys]
        return
    for n, item in enumerate(iterate(cap, source)):
        parts = _pair(cap, n, item)
        yield key_of(cap, parts[0]), parts[1]


def _pair(cap: Capture, n: int, item: Value) -> list[Value]:
    """Element `n` of what a dict is made of: a key and its value."""
    if is_const(item) and not hasattr(type(item.value), "__iter__"):
        raise raised(TypeError, f"cannot convert dictionary update sequence element #{n} to a sequence")
    parts = list(iterate(cap, item))
    if len(parts) != 2:
        raise raised(ValueError, f"dictionary update sequence element #{n} has length {len(parts)}; 2 is required")
    return parts


def elements_of(cap: Capture, other: Value) -> Any:
    """Another set's elements, or those of any iterable one by one, as keys in their order."""
    known = kind(other).members is not None
    return other.items if known else (hashable(cap, x) for x in iterate(cap, other))  # type: ignore[attr-defined]


def members_of(cap: Capture, other: Value) -> Any:
    """The same for who does not ask for their order."""
    row = kind(other).members
    return elements_of(cap, other) if row is None else row(other)


def own_order(cap: Capture) -> Callable[[], bool] | None:
    """For a set that is made now: whether the library that makes it is what runs, which gives the same in every
    process. So it rests on no order that is another there; None where nobody promises that."""
    home = _running(cap)
    return None if not home else lambda: _running(cap) == home


def _running(cap: Capture) -> str:
    return "" if cap.current is None else steady_library(str(cap.current.globals.get("__name__")))


define(SetV, Kind(members=lambda v: v.members))
define(DictV, Kind(members=lambda v: v.items))


def missing_key(key: Value) -> Raised:
    """The KeyError of a key that is not there."""
    return Raised(ObjectV(KeyError, ctor=(key,), attrs={"args": TupleV([key])}))


define(Const, Kind(key=_const_key))
define(SizeV, Kind(key=lambda cap, v: _constant_key(size_values.concrete(cap, v, "a key of a dict or set"))))
define(TupleV, Kind(key=_tuple_key))
define(SetV, Kind(key=_set_key))
define(ObjectV, Kind(key=_object_key))
define(OpaqueV, Kind(key=_opaque_key))
for _cls, _key in ((ListV, _unhashable), (DictV, _unhashable),
                   *((cls, lambda cap, v: v) for cls in (FunctionV, MethodV, CellV, IdV)),
                   *((cls, _by_identity) for cls in (GeneratorV, SeqIterV, CountIterV, StreamV, GivenIterV))):
    define(_cls, Kind(key=_key))  # type: ignore[type-abstract]
