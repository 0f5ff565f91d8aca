"""Python's built-in functions and types, as rows of the table of callees.

A row is `row(cap, *args, **kwargs)` on Values. To support another function of the standard library,
add a row here (or let its Python source be entered, which needs nothing).
"""

from __future__ import annotations

import builtins
import collections
import functools
import operator
import sys
import types
from typing import Any

import jax
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars, later
from dynacomp.capture.arithmetic.indices import index_value
from dynacomp.capture.arithmetic.operators import as_bool, fold, truth
from dynacomp.capture.base.classes import mro
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.hashes import hashes_as_text, note_hashes
from dynacomp.capture.base.loops_py import as_list
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.kinds import attrs, stores
from dynacomp.capture.kinds.changing_keys import put
from dynacomp.capture.kinds.containers import length
from dynacomp.capture.kinds.exceptions import handled
from dynacomp.capture.kinds.iteration import iterate, listed
from dynacomp.capture.kinds.keys import hash_value, members_of, own_order, pairs
from dynacomp.capture.kinds.text import text
from dynacomp.capture.kinds.whole_loops import looped
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.reconstruct import runtime, tracebacks
from dynacomp.capture.rows import alike_items, grown_lists
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing import settled
from dynacomp.capture.values.callables import PartialV, SuperV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, holds, is_const, is_exactly, peek
from dynacomp.capture.values.containers import DictV, ListV, RangeV, SetV, SliceV, TupleV
from dynacomp.capture.values.kind import KINDS, Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_dict, is_plain_tuple
from dynacomp.capture.values.standing import LaterV
from dynacomp.capture.values.value import NotConstant, Value, as_python, is_constant, type_of
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.immutability import is_python_class

NONE = Const(None)


def row(*functions: Any) -> Any:
    """Registers a row for each of the real callables."""

    def register(fn: Any) -> Any:
        for f in functions:
            BUILTINS[f] = fn
        return fn

    return register


@row(types.MappingProxyType)
def _mapping_proxy(cap: Capture, mapping: Value) -> Value:
    """A view of a dict, not a copy."""
    if not is_dict(mapping) or mapping.cls is types.MappingProxyType:
        raise Break("call", "a mappingproxy of what is no dict")
    mapping.is_shown = True
    return DictV(mapping.items, types.MappingProxyType, shows=mapping)


# --- inspection


row(len)(length)


def class_of(x: Value) -> type:
    try:
        return type_of(x)
    except NotConstant:
        raise Break("call", f"type() of a {type(x).__name__}") from None


@row(callable)
def _callable(cap: Capture, x: Value) -> Value:
    row = kind(x).callable
    return Const(any("__call__" in vars(base) for base in mro(class_of(x))) if row is None else row(cap, x))


define(Const, Kind(callable=lambda cap, x: callable(peek(x))))
define(ObjectV, Kind(callable=lambda cap, x: attrs.resolve(cap, x.cls, "__call__")[0] is not None))


@row(getattr)
def _getattr(cap: Capture, x: Value, name: Value, default: Value | None = None, /) -> Value:
    if default is None:
        return cap.getattr(x, attrs.attribute_name(name))
    if attrs.is_known_to_have(x, attrs.attribute_name(name)) is False:
        return default
    try:
        return cap.getattr(x, attrs.attribute_name(name))
    except Raised as raised:
        if issubclass(type_of(raised.value), AttributeError):
            return default
        raise


@row(hasattr)
def _hasattr(cap: Capture, x: Value, name: Value) -> Value:
    return Const(attrs.has_attribute(cap, x, attrs.attribute_name(name)))


@row(setattr)
def _setattr(cap: Capture, x: Value, name: Value, value: Value) -> Value:
    stores.setattr_value(cap, x, attrs.attribute_name(name), value)
    return NONE


@row(delattr)
def _delattr(cap: Capture, x: Value, name: Value) -> Value:
    stores.delattr_value(cap, x, attrs.attribute_name(name))
    return NONE


@row(hash)
def _hash(cap: Capture, x: Value) -> Value:
    if not cap.libraries.hashing:  # else it becomes part of the hash of a key (see `keys.hashing_alone`)
        note_hashes(by_address=not (is_constant(x) and hashes_as_text(as_python(x))))
    fixed = is_constant(x) and not (type_of(x) in (float, complex) and as_python(x) != as_python(x))
    return fold(cap, hash, x) if fixed else hash_value(cap, x)


# --- conversion


@row(bool)
def _bool(cap: Capture, x: Value = Const(False)) -> Value:
    return as_bool(cap, x)


def _number(kind: type) -> Any:
    def convert(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        own = KINDS[type(args[0])].number if args else None
        if own is not None:
            return own(cap, args[0], kind, list(args[1:]), kwargs)
        return fold(cap, lambda *a: kind(*a), *args) if not kwargs else fold(
            cap, lambda *a: kind(*a[:len(args)], **dict(zip(kwargs, a[len(args):]))), *args, *kwargs.values())
    return convert


def _of_array(cap: Capture, x: Value, kind: type, rest: list[Value], kwargs: dict[str, Value]) -> Value:
    if ndarrays.is_numpy(x) and ndarrays.takes(cap, x) and not kwargs:
        return ndarrays.call_method(cap, x, f"__{kind.__name__}__", rest, {})
    is_plain = not rest and not kwargs
    known = settled.number(cap, x, int) if kind is int and is_plain else None
    if known is not None:
        return Const(known)
    found = graph_scalars.from_array(cap, x, kind, by_tracers=kind is not float)
    if found is not None:
        return found
    known = settled.number(cap, x, float) if kind is float and is_plain else None  # of integers: no Graph holds it
    if known is None:
        raise Break("leaves", f"{kind.__name__}() of an array")
    return Const(known)


def _of_size(cap: Capture, x: SizeV, kind: type, rest: list[Value], kwargs: dict[str, Value]) -> Value:
    return x if kind is int else fold(cap, kind, size_values.concrete(cap, x, f"{kind.__name__}()"))


# The methods that make a number of an object, in the order in which Python asks for them, and what they give.
# Python warns where that is an instance of a subclass, and of a `__trunc__`.
CONVERSIONS: dict[type, dict[str, Any]] = {
    int: {"__int__": int, "__index__": int, "__trunc__": None}, float: {"__float__": float, "__index__": int},
    complex: {"__complex__": complex, "__float__": float, "__index__": int}}


def _converted(cap: Capture, x: ObjectV, kind: type, rest: list[Value], kwargs: dict[str, Value]) -> Value:
    """`int(x)`, `float(x)`, `complex(x)` of an instance: its own conversion, or that of the text that it is."""
    if is_exactly(x.payload, str, bytes):
        return BUILTINS[kind](cap, x.payload, *rest, **kwargs)
    for name, gives in CONVERSIONS[kind].items():
        method = cap.special(x, name)
        if method is not None:
            found = cap.call(method, [])
            if rest or kwargs or type_of(found) is not gives:
                raise Break("call", f"{kind.__name__}() by a {name} that gives something else")
            return found if type_of(found) is kind else BUILTINS[kind](cap, found)
    if not all(map(is_python_class, x.cls.__mro__[:-1])):
        raise Break("call", f"{kind.__name__}() of a {x.cls.__qualname__}")  # some are text for Python: bytearray
    return fold(cap, kind, Const(Foreign(x.cls.__name__)), *rest)


def Foreign(name: str) -> Any:  # noqa: N802  (it makes an instance, as a class would)
    """An object without any methods, of a class of this name: what Python says of such an object is raised."""
    return type(name, (), {})()


for _kind in CONVERSIONS:
    BUILTINS[_kind] = _number(_kind)
for _cls, _row in ((ArrayV, _of_array), (NdArrayV, _of_array), (LibraryV, _of_array), (SizeV, _of_size),
                   (ObjectV, _converted)):
    define(_cls, Kind(number=_row))  # type: ignore[arg-type]
define(LaterV, Kind(number=lambda cap, x, kind, rest, kwargs: not rest and graph_scalars.from_array(
    cap, x, kind, by_tracers=kind is not float) or later.number(cap, x, kind, rest, kwargs)))
define(NumberV, Kind(number=lambda cap, x, kind, rest, kwargs: graph_scalars.converted(cap, kind, x)))


@row(str)
def _str(cap: Capture, x: Value = Const(""), *rest: Value) -> Value:
    return text(cap, x, str) if not rest else fold(cap, str, x, *rest)


@row(repr)
def _repr(cap: Capture, x: Value) -> Value:
    return text(cap, x, repr)


@row(format)
def _format(cap: Capture, x: Value, spec: Value = Const("")) -> Value:
    if not issubclass(type_of(spec), str):
        return fold(cap, format, Const(None), spec)  # which refuses
    return text(cap, x, format, as_python(spec))


@row(tuple)
def _tuple(cap: Capture, xs: Value = TupleV([])) -> Value:
    if is_plain_tuple(xs):
        return xs
    rows = grown_lists.of_rows(cap, xs) or looped(cap, as_list, xs)
    return TupleV(listed(cap, xs)) if rows is None else alike_items.as_tuple(cap, rows)


@row(list)
def _list(cap: Capture, xs: Value = TupleV([])) -> Value:
    made = grown_lists.of_rows(cap, xs)
    return made or looped(cap, as_list, xs) or ListV(listed(cap, xs))


@row(collections.deque)
def _deque(cap: Capture, xs: Value = TupleV([]), maxlen: Value = NONE) -> Value:
    limit = as_python(fold(cap, lambda n: collections.deque((), n).maxlen, maxlen))  # an int, of what may be none
    items = list(iterate(cap, xs))
    return ListV(items if limit is None else items[max(0, len(items) - limit):], collections.deque, extra=limit)


@row(dict)
def _dict(cap: Capture, *sources: Value, **kwargs: Value) -> Value:
    if len(sources) > 1:
        return fold(cap, dict, NONE, NONE)  # which refuses
    made = DictV({})
    for source in sources:
        for key, item in pairs(cap, source):
            put(cap, made, key, item)
    made.items.update(kwargs)
    return made


@row(collections.OrderedDict)
def _ordered(cap: Capture, *sources: Value, **kwargs: Value) -> Value:
    made = _dict(cap, *sources, **kwargs)
    made.cls = collections.OrderedDict
    return made


@row(collections.defaultdict)
def _defaultdict(cap: Capture, factory: Value = NONE, *sources: Value, **kwargs: Value) -> Value:
    made = _dict(cap, *sources, **kwargs)
    made.cls, made.factory = collections.defaultdict, factory
    return made


def _set_of(kind: type) -> Any:
    def make(cap: Capture, xs: Value = TupleV([])) -> Value:
        if kind is frozenset and isinstance(xs, SetV) and xs.cls is frozenset and xs.holder is None:
            return xs
        return SetV(set(members_of(cap, xs)), kind, is_own=own_order(cap))
    return make


BUILTINS[set], BUILTINS[frozenset] = _set_of(set), _set_of(frozenset)


@row(slice)
def _slice(cap: Capture, *args: Value) -> Value:
    if not 1 <= len(args) <= 3:
        return fold(cap, slice, *args)
    a = [NONE, args[0], NONE] if len(args) == 1 else [*args, *[NONE] * (3 - len(args))]
    return SliceV(*a)


@row(range)
def _range(cap: Capture, *args: Value) -> Value:
    if not 1 <= len(args) <= 3:
        return fold(cap, range, *args)  # which refuses
    args = tuple(index_value(cap, x) for x in args)
    a = [Const(0), args[0], Const(1)] if len(args) == 1 else [*args, *[Const(1)] * (3 - len(args))]
    if any(of_class(SizeV, a)):
        a = [fold(cap, lambda n: range(n).stop, n) if is_const(n) else n for n in a]  # an int, of what may be none
        for changing in of_class(ScalarV, a):  # a size as well, from the next attempt on
            as_python(changing)
        none = size_values.compare(cap, operator.eq, a[2], Const(0))
        return fold(cap, range, Const(0), Const(0), Const(0)) if as_python(none) else RangeV(*a)
    if any(of_class(ArrayV, a)):
        raise Break("leaves", "range() of an array")
    return fold(cap, range, *a)


# --- functools, super


def _has_dict(cap: Capture, fn: PartialV) -> bool:
    """Whether a partial stays itself inside another, as one that notes something does."""
    if fn.noted is not None or fn.source is None or fn.real is None:
        return fn.noted is not None or bool(fn.attrs)
    return truth(cap, dynamic_scalars.host("has_dict", runtime.has_dict, ScalarV(fn.real, source=fn.source)))


@row(functools.partial)
def _partial(cap: Capture, fn: Value, *args: Value, **kwargs: Value) -> Value:
    if isinstance(fn, PartialV) and not _has_dict(cap, fn):
        return PartialV(fn.func, [*fn.args, *args], {**fn.kwargs, **kwargs})
    return PartialV(fn, list(args), kwargs)


@row(super)
def _super(cap: Capture, *args: Value) -> Value:
    if args:
        return _super_of(*args)
    frame = cap.current
    assert frame is not None
    if frame.first_local is None or "__class__" not in frame.cells:
        what = "no arguments" if frame.first_local is None else "__class__ cell not found"
        raise Raised(Const(RuntimeError(f"super(): {what}")))
    held: Any = frame.cells.get(frame.first_local)
    first = frame.locals.get(frame.first_local) or (held and held.content)
    if first is None:
        raise Raised(Const(RuntimeError("super(): arg[0] deleted")))
    cell = frame.cells["__class__"]
    cell.content = cap.realize(cell.content)
    return _super_of(cell.content, cap.realize(first))


def _super_of(cls: Value, *obj: Value) -> Value:
    start = as_python(cls)
    if len(obj) != 1 or not isinstance(start, type):
        raise Break("call", "super() of other arguments")
    if holds(obj[0], type) and issubclass(obj[0].value, start):
        return SuperV(start, obj[0])
    if start not in mro(type_of(obj[0])):
        raise Break("raises", "super() of an object of another class")
    return SuperV(start, obj[0])


# --- the exception at hand


@row(sys.exc_info)
def _exc_info(cap: Capture) -> Value:
    error = handled(cap, cap.current)
    return TupleV([NONE] * 3 if error is None else [Const(type_of(error)), error, tracebacks.of(cap, error)])


@row(sys.exception)
def _current_exception(cap: Capture) -> Value:
    return handled(cap, cap.current) or NONE


# --- things that must really happen, in Python


def _leaves(why: str) -> Any:
    def refuse(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        raise Break("effect", why)
    return refuse


for _name in ("input", "open", "breakpoint", "compile", "globals", "__import__"):
    BUILTINS[getattr(builtins, _name)] = _leaves(f"{_name}()")
for _fn in (np.asarray, np.array):
    BUILTINS[_fn] = _leaves("a NumPy array made from values")
BUILTINS[jax.device_get] = lambda cap, x: later.made(cap, np.asarray, x) or _leaves("jax.device_get")(cap)
BUILTINS[jax.block_until_ready] = lambda cap, x: x
