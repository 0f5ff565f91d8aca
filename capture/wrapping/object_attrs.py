"""Attributes of instances of Python classes, as `object.__getattribute__` finds them.

Data descriptors first, then the instance's own entry, then other class attributes, then `__getattr__`;
descriptors and hooks that are Python functions are entered. Each class attribute that was relied on is guarded.
"""

from __future__ import annotations

import collections
import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, TypeGuard

import jax

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.symbolic.libraries import is_pure_module, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.objects import DELETED, ObjectV
from dynacomp.capture.values.questions import is_library_object, is_object
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import class_attrs
from dynacomp.capture.wrapping.builder import is_made_anew, items_of, own_source, wrap
from dynacomp.capture.wrapping.builtin_subclasses import BASES, built_in_base
from dynacomp.capture.wrapping.class_attrs import (
    MISSING,
    SIMPLE,
    class_data,
    class_value,
    is_hook,
    lookup,
    name_in_errors,
    resolve,
)
from dynacomp.capture.wrapping.class_prototypes import Placeholder, hooks
from dynacomp.capture.wrapping.constants import from_python


def is_exception(value: Value) -> TypeGuard[ObjectV]:
    """Whether `value` is an exception that the machine looks into."""
    return is_object(value) and issubclass(value.cls, BaseException)


def no_attribute(owner: str, name: str) -> Raised:
    """The AttributeError of an object without this attribute."""
    return Raised(Const(AttributeError(f"{owner!r} object has no attribute {name!r}", name=name)))


def refused(cls: type, attempt: Callable[[Any], Any]) -> Raised:
    """The AttributeError of `attempt` on an empty instance, in this Python version's words."""
    try:
        attempt(built_in_base(cls).__new__(cls))
    except AttributeError as error:
        return Raised(Const(error))
    except TypeError:  # a class in C whose instances are not made so
        pass
    raise Break("attribute", f"what a {cls.__qualname__} keeps in C")


def object_attribute(cap: Capture, value: ObjectV, name: str) -> Value:
    """`object.__getattribute__`: it does not ask `__getattr__`."""
    owner, raw = resolve(cap, value.cls, name)
    if raw is not MISSING and is_data_descriptor(raw) and hasattr(type(raw), "__get__"):
        return bind(cap, raw, value, owner, name)
    own = instance_attribute(cap, value, name)
    if own is not None:
        return own
    pending = class_attrs.written(cap, value.cls, name)
    if pending is not None:
        return class_attrs.through_instance(value, pending)
    if owner is not None and not class_attrs.is_deleted(cap, value.cls, name):
        return class_data(cap, value.cls, owner, raw, name) if class_attrs.is_data(raw) else bind(
            cap, raw, value, owner, name)
    raise no_attribute(name_in_errors(value.cls), name)


def hook(cap: Capture, value: ObjectV, name: str) -> Value | None:
    """The special method of an instance's class, bound; None where that is C's own, or there is none."""
    owner, raw = resolve(cap, value.cls, name)
    return bind(cap, raw, value, owner, name) if is_hook(raw) else None


def is_librarys(raw: Any) -> bool:
    """Whether that is a method of a library that promises purity."""
    return isinstance(raw, types.FunctionType) and is_pure_module(module_of(raw))


def is_data_descriptor(raw: Any) -> bool:
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")


def instance_attribute(cap: Capture, value: ObjectV, name: str) -> Value | None:
    """The instance's own entry (dictionary or slot), or None."""
    if name in value.attrs:
        own = value.attrs[name]
        return None if own is DELETED else own
    if value.real is None or value.view is not None:
        return None
    table = own_dict(value.real)
    if name in table:
        assert value.source is not None
        own = wrap(cap, table[name], own_source(value.real, value.source, name))
        value.attrs[name] = own
        return own
    _, raw = lookup(value.cls, name)
    if isinstance(raw, types.MemberDescriptorType):
        return _slot(cap, value, name, raw)
    if issubclass(type(value.real), threading.local):
        assert value.source is not None
        cap.guards.add("missing_key", S.ThreadDict(value.source), name)
    elif value.cls.__dictoffset__ and value.source is not None:
        cap.guards.add("missing", value.source, name)
    return None


UNCHANGING = (inspect.Signature, inspect.Parameter)  # whose attributes are what they were when they were made


def _slot(cap: Capture, value: ObjectV, name: str, raw: types.MemberDescriptorType) -> Value | None:
    assert value.source is not None
    try:
        obj = raw.__get__(value.real, value.cls)
    except AttributeError:
        cap.guards.add("empty_slot", value.source, raw)
        return None
    if issubclass(value.cls, UNCHANGING) and not is_made_anew(cap, value.real, value.source):
        cap.guards.add("is", value.source, value.real)  # this very object: another one has other attributes
        own = from_python(cap, obj)
    else:
        own = wrap(cap, obj, S.Slot(value.source, name, raw))
    value.attrs[name] = own
    return own


def bind(cap: Capture, raw: Any, value: Value, owner: type | None, name: str) -> Value:
    """A class attribute seen through an instance: descriptors bind, the rest is itself."""
    row = next((row for classes, row in BINDING if isinstance(raw, classes)), _descriptor)
    return row(cap, raw, value, owner, name)


def _property(cap: Capture, raw: property, value: Value, owner: type | None, name: str) -> Value:
    if raw.fget is None:
        raise refused(type_of(value), raw.__get__)
    return cap.call(from_python(cap, raw.fget), [value])


def _part(cap: Capture, raw: Any, value: Value, owner: type | None, name: str) -> Value:
    """Of an instance's memory: a slot, or what its class in C shows of it."""
    if is_object(value) and raw.__objclass__ in BASES:
        return OPERATIONS.payload_attribute(cap, value, name)
    if not isinstance(raw, types.MemberDescriptorType) or name == "__dict__":  # so it is in a SimpleNamespace
        return _getset(cap, value, name)
    slot = instance_attribute(cap, value, name) if is_object(value) else None
    if slot is None and is_exception(value):
        return OPERATIONS.exception_attribute(cap, value, name)
    if slot is None:
        raise refused(type_of(value), raw.__get__)
    return slot


def through(cap: Capture, held: Value, value: Value, cls: Value) -> Value:
    """What a class that the captured code makes has under a name, as an instance sees it, or (None) the class."""
    if is_library_object(held):  # jitted functions bind as others do
        of_class = stands_for(value, None)
        return held if of_class or not hooks(held) else MethodV(held, value)
    getter = cap.own(held, "__get__")
    return held if getter is None else cap.call(getter, [value, cls])


PJIT: Any = type(jax.jit(abs))  # a method under `@jax.jit` binds as functions do


def _descriptor(cap: Capture, raw: Any, value: Value, owner: type | None, name: str) -> Value:
    if isinstance(raw, (CompiledFunction, PJIT)):
        return MethodV(class_value(cap, raw, owner, name), value)
    row = next((row for cls, row in DESCRIPTORS if type(raw) is cls), None)
    if row is not None:
        return row(cap, raw, value)
    _, getter = resolve(cap, type(raw), "__get__")
    if isinstance(getter, types.FunctionType):
        source = S.Attr(class_attrs.class_source(cap, owner), name) if owner is not None else None
        descriptor = wrap(cap, raw, source) if source is not None else from_python(cap, raw)
        return cap.call(Const(getter), [descriptor, value, Const(type_of(value))])
    if getter is not MISSING:
        raise Break("attribute", f"descriptor {type(raw).__qualname__} in {name!r}")
    return class_value(cap, raw, owner, name)


def _cached_property(cap: Capture, raw: functools.cached_property, value: Value) -> Value:
    """Computed once, then the instance's own entry (its lock, before 3.12, guards against threads)."""
    if not is_object(value) or raw.attrname is None:
        raise Break("attribute", "a cached_property without a name")
    found = cap.call(from_python(cap, raw.func), [value])
    mutating(cap, value)
    value.attrs[raw.attrname] = found
    value.written.add(raw.attrname)
    return found


def _named_field(cap: Capture, raw: Any, value: Value) -> Value:
    """A field of an instance of a class derived from a NamedTuple."""
    if not is_object(value):
        raise Break("attribute", "a field of a NamedTuple that is none")
    return items_of(cap, value.payload)[raw.__reduce__()[1][0]]


TUPLE_GETTER: Any = type(vars(collections.namedtuple("Pair", "one"))["one"])
# Of these very classes: row(cap, descriptor, instance).
DESCRIPTORS: list[tuple[type, Callable[[Capture, Any, Value], Value]]] = [
    (functools.cached_property, _cached_property), (TUPLE_GETTER, _named_field)]


def _getset(cap: Capture, value: Value, name: str) -> Value:
    if name == "__class__":
        return Const(type_of(value))
    if name == "__dict__" and is_object(value):
        return OPERATIONS.instance_dict(cap, value)
    if is_exception(value):
        return OPERATIONS.exception_attribute(cap, value, name)
    raise Break("attribute", f"built-in attribute {name!r}")


# What becomes of the attributes that are of these classes: row(cap, raw, value, owner, name).
BINDING: tuple[tuple[Any, Callable[[Capture, Any, Value, type | None, str], Value]], ...] = (
    (types.FunctionType, lambda cap, raw, v, owner, name: MethodV(class_value(cap, raw, owner, name), v)),
    (Placeholder, lambda cap, raw, v, owner, name: through(cap, cap.known.objects[id(raw)], v, Const(type_of(v)))),
    (property, _property),
    (classmethod, lambda cap, raw, v, owner, name: class_attrs.class_method(cap, raw, type_of(v))),
    (staticmethod, lambda cap, raw, v, owner, name: class_attrs.static_method(cap, raw, owner, name)),
    (SIMPLE, _part),
    ((types.WrapperDescriptorType, types.MethodDescriptorType),
     lambda cap, raw, v, owner, name: MethodV(Const(raw), v)),
    (types.ClassMethodDescriptorType, lambda cap, raw, v, owner, name: Const(raw.__get__(None, type_of(v)))),
)

OPERATIONS.instance_attribute = instance_attribute
OPERATIONS.through = through
