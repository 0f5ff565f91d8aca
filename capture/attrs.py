"""Attributes: `getattr`, `setattr` and `delattr` on Values, by Python's own rules.

For instances of Python classes (`ObjectV`) this follows `object.__getattribute__`: data descriptors,
then the instance's own entry, then other class attributes, then `__getattr__`; descriptors and
hooks that are Python functions are entered. Each class attribute that was relied on is guarded.
Other Values have a row in `_READERS`.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

from dynacomp.capture import arrays, class_attrs
from dynacomp.capture import sources as S
from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.births import from_python
from dynacomp.capture.class_attrs import MISSING, SIMPLE, class_data, class_value, from_metaclass, lookup, read_class
from dynacomp.capture.effects import mutating, write_global
from dynacomp.capture.errors import Break, Raised
from dynacomp.capture.libraries import is_pure_module
from dynacomp.capture.machine import OPERATIONS, Capture
from dynacomp.capture.nodes import RULES, library_call
from dynacomp.capture.payloads import BASES, payload_base
from dynacomp.capture.values import (
    DELETED,
    ArrayV,
    BuiltinMethodV,
    CellV,
    Const,
    CountIterV,
    DictV,
    FunctionV,
    GeneratorV,
    LibraryV,
    ListV,
    MethodV,
    ObjectV,
    OpaqueV,
    PartialV,
    RangeV,
    SeqIterV,
    SetV,
    SizeV,
    SliceV,
    StreamV,
    SuperV,
    TupleV,
    Value,
    ViewV,
    as_python,
    is_open,
    peek,
    type_of,
)
from dynacomp.capture.wrap import is_changeable, items_of, own_dict, own_source, wrap

# (type of a constant, method name) → row(cap, obj, *args): tree structures, ...
CONST_METHODS: dict[tuple[type, str], Any] = {}


def no_attribute(owner: str, name: str) -> Raised:
    return Raised(Const(AttributeError(f"{owner!r} object has no attribute {name!r}", name=name)))


def _refused(cls: type, attempt: Callable[[Any], Any]) -> Raised:
    """The AttributeError of `attempt` on an empty instance, in this Python version's words."""
    try:
        base: Any = payload_base(cls) or object
        attempt(base.__new__(cls))
    except AttributeError as error:
        return Raised(Const(error))
    raise AssertionError(f"an empty {cls.__qualname__} has the attribute")


def attribute_name(name: Value) -> str:
    """An attribute's name; Python says what it refuses as one."""
    if type_of(name) is not str:
        raise Break("raises", "an attribute's name that is no string")
    return as_python(name)


def getattr_value(cap: Capture, value: Value, name: str) -> Value:
    reader = _READERS.get(type(value))
    if reader is None:
        raise Break("attribute", f"{name!r} of a {type(value).__name__}")
    try:
        return reader(cap, value, name)
    except Raised as raised:
        OPERATIONS["say_where"](cap, raised, value, name)
        raise


def special(cap: Capture, value: Value, name: str) -> Value | None:
    """A special method as an operator finds it: on the type, past the instance and `__getattr__`."""
    if isinstance(value, Const) and isinstance(value.value, type):
        return from_metaclass(cap, value.value, name) if hasattr(type(value.value), name) else None
    if not isinstance(value, ObjectV):
        return getattr_value(cap, value, name) if has_attribute(cap, value, name) else None
    owner, raw = lookup(value.cls, name)
    if raw is MISSING or raw is None:
        return None
    guard_class(cap, value, name, raw)
    return bind(cap, raw, value, owner, name)


def has_attribute(cap: Capture, value: Value, name: str) -> bool:
    try:
        getattr_value(cap, value, name)
    except Raised as raised:
        if issubclass(type_of(raised.value), AttributeError):
            return False
        raise
    return True


# --- instances of Python classes


def _object(cap: Capture, value: ObjectV, name: str) -> Value:
    _, hook = lookup(value.cls, "__getattribute__")
    if isinstance(hook, types.FunctionType) and not is_pure_module(hook.__globals__.get("__name__")):
        return cap.call(Const(hook), [value, Const(name)])
    return object_attribute(cap, value, name)


def object_attribute(cap: Capture, value: ObjectV, name: str) -> Value:
    """`object.__getattribute__`, then `__getattr__`."""
    owner, raw = lookup(value.cls, name)
    if owner is not None and not class_attrs.is_data(raw):
        guard_class(cap, value, name, raw)
    if raw is not MISSING and _is_data_descriptor(raw):
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
    _, fallback = lookup(value.cls, "__getattr__")
    if isinstance(fallback, types.FunctionType):
        return cap.call(Const(fallback), [value, Const(name)])
    raise no_attribute(value.cls.__name__, name)


def guard_class(cap: Capture, value: ObjectV, name: str, raw: Any) -> None:
    """The object's class still finds this object under this name."""
    class_attrs.guard_class(cap, value.cls, name, raw, value.source)


def _is_data_descriptor(raw: Any) -> bool:
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
    if isinstance(value.real, threading.local):
        assert value.source is not None
        cap.guards.add("missing_key", S.ThreadDict(value.source), name)
    elif value.cls.__dictoffset__ and value.source is not None:
        cap.guards.add("missing", value.source, name)
    return None


def _slot(cap: Capture, value: ObjectV, name: str, raw: types.MemberDescriptorType) -> Value | None:
    try:
        obj = raw.__get__(value.real, value.cls)
    except AttributeError:
        return None
    assert value.source is not None
    own = wrap(cap, obj, S.Slot(value.source, name, raw))
    value.attrs[name] = own
    return own


def bind(cap: Capture, raw: Any, value: Value, owner: type | None, name: str) -> Value:
    """A class attribute seen through an instance: descriptors bind, the rest is itself."""
    if isinstance(raw, types.FunctionType):
        return MethodV(class_value(cap, raw, owner, name), value)
    if isinstance(raw, property):
        if raw.fget is None:
            owner_name = type_of(value).__name__
            raise Raised(Const(AttributeError(f"property {name!r} of {owner_name!r} object has no getter")))
        return cap.call(from_python(cap, raw.fget), [value])
    if isinstance(raw, classmethod):
        return MethodV(from_python(cap, raw.__func__), Const(type_of(value)))
    if isinstance(raw, staticmethod) and isinstance(raw.__func__, CompiledFunction):
        return Const(raw.__func__)
    if isinstance(raw, staticmethod):
        return class_value(cap, raw.__func__, owner, name)
    if isinstance(value, ObjectV) and getattr(raw, "__objclass__", None) in BASES and isinstance(raw, SIMPLE):
        return OPERATIONS["payload_attribute"](cap, value, name)
    if isinstance(raw, types.MemberDescriptorType):
        slot = instance_attribute(cap, value, name) if isinstance(value, ObjectV) else None
        if slot is None and isinstance(value, ObjectV) and issubclass(value.cls, BaseException):
            return OPERATIONS["exception_attribute"](cap, value, name)
        if slot is None:
            raise _refused(type_of(value), raw.__get__)
        return slot
    if isinstance(raw, SIMPLE):
        return _getset(cap, value, name)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return MethodV(Const(raw), value)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return Const(raw.__get__(None, type_of(value)))
    return _descriptor(cap, raw, value, owner, name)


def _descriptor(cap: Capture, raw: Any, value: Value, owner: type | None, name: str) -> Value:
    if isinstance(raw, CompiledFunction):
        return MethodV(Const(raw), value)
    row = DESCRIPTORS.get(type(raw).__qualname__)
    if row is not None and not (row is _cached_property and type(raw) is not functools.cached_property):
        return row(cap, raw, value)
    _, getter = lookup(type(raw), "__get__")
    if isinstance(getter, types.FunctionType):
        source = S.Attr(S.Root(owner, owner.__qualname__), name) if owner is not None else None
        descriptor = wrap(cap, raw, source) if source is not None else from_python(cap, raw)
        return cap.call(Const(getter), [descriptor, value, Const(type_of(value))])
    if getter is not MISSING:
        raise Break("attribute", f"descriptor {type(raw).__qualname__} in {name!r}")
    return class_value(cap, raw, owner, name)


def _wrapped_method(cap: Capture, raw: Any, value: Value) -> Value:
    """Equinox wraps the methods of a Module so that bound ones are pytrees."""
    return MethodV(Const(raw.method), value)


# Descriptors of libraries that bind like plain functions: type name → how.
DESCRIPTORS: dict[str, Any] = {"_wrap_method": _wrapped_method, "_WrapMethod": _wrapped_method}


def _cached_property(cap: Capture, raw: functools.cached_property, value: Value) -> Value:
    """Computed once, then the instance's own entry (its lock, before 3.12, guards against threads)."""
    if not isinstance(value, ObjectV) or raw.attrname is None:
        raise Break("attribute", "a cached_property without a name")
    found = cap.call(from_python(cap, raw.func), [value])
    mutating(cap, value)
    value.attrs[raw.attrname] = found
    value.written.add(raw.attrname)
    return found


DESCRIPTORS["cached_property"] = _cached_property


def _named_field(cap: Capture, raw: Any, value: Value) -> Value:
    """A field of an instance of a class derived from a NamedTuple."""
    if not isinstance(value, ObjectV):
        raise Break("attribute", "a field of a NamedTuple that is none")
    return items_of(cap, value.payload)[raw.__reduce__()[1][0]]


DESCRIPTORS["_tuplegetter"] = _named_field


def _getset(cap: Capture, value: Value, name: str) -> Value:
    if name == "__class__":
        return Const(type_of(value))
    if name == "__dict__" and isinstance(value, ObjectV):
        return OPERATIONS["instance_dict"](cap, value)
    if isinstance(value, ObjectV) and issubclass(value.cls, BaseException):
        return OPERATIONS["exception_attribute"](cap, value, name)
    raise Break("attribute", f"built-in attribute {name!r}")


# --- other Values


def _const(cap: Capture, value: Const, name: str) -> Value:
    if is_open(value) and name in FUNCTION_PARTS:
        assert value.source is not None
        return wrap(cap, getattr(peek(value), name), S.Get(value.source, name))
    obj = value.value
    if isinstance(obj, types.ModuleType):
        return _module(cap, obj, name)
    if isinstance(obj, type):
        return read_class(cap, obj, name)
    if isinstance(obj, BaseException):
        return getattr_value(cap, OPERATIONS["as_exception"](cap, value), name)
    if value.source is not None and is_changeable(obj):
        raise Break("opaque", f"{name!r} of a {type(obj).__qualname__}")
    if (type(obj), name) in CONST_METHODS:
        return BuiltinMethodV(value, name)
    try:
        found = getattr(obj, name)
    except AttributeError as error:
        raise Raised(Const(error)) from None
    if isinstance(found, (types.BuiltinMethodType, types.MethodWrapperType)) and found.__self__ is obj:
        return BuiltinMethodV(value, name)
    if value.source is not None and isinstance(obj, types.FunctionType):
        return _function_attribute(cap, value, name, found)
    return from_python(cap, found)


FUNCTION_PARTS = ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__closure__", "__code__",
                  "__globals__")


def _function_attribute(cap: Capture, value: Const, name: str, found: Any) -> Value:
    assert value.source is not None
    if name in ("__defaults__", "__kwdefaults__", "__closure__", "__code__", "__dict__", "__globals__"):
        return wrap(cap, found, S.Get(value.source, name))
    if name in value.value.__dict__:
        return wrap(cap, found, S.Attr(value.source, name))
    return from_python(cap, found)


def _module(cap: Capture, module: types.ModuleType, name: str) -> Value:
    try:
        found = getattr(module, name)
    except AttributeError as error:
        if not is_pure_module(module.__name__):
            cap.guards.add("missing_key", S.Root(vars(module), f"vars({module.__name__})"), name)
        raise Raised(Const(error)) from None
    key = (id(vars(module)), name)
    if key in cap.global_writes:
        return cap.global_writes[key][2]
    if name not in vars(module):
        return from_python(cap, found)
    if is_pure_module(module.__name__):
        cap.rely(vars(module), name, found)
        return from_python(cap, found)
    return wrap(cap, found, S.Attr(S.Root(module, module.__name__), name))


def _modelled(cap: Capture, value: Value, name: str) -> Value:
    """Built-in containers and the like: methods are bound, nothing else is there."""
    cls = type_of(value)
    if name == "__class__":
        return Const(cls)
    if isinstance(value, TupleV) and cls is not tuple:
        return _named_tuple(cap, value, name)
    owner, raw = lookup(cls, name)
    if raw is MISSING:
        raise no_attribute(cls.__name__, name)
    if isinstance(raw, types.FunctionType):
        return MethodV(Const(raw), value)
    if isinstance(value, DictV) and name == "default_factory":
        return value.factory or Const(None)
    if isinstance(value, ListV) and name == "maxlen":
        return Const(value.extra)
    if isinstance(raw, SIMPLE):
        return _of_generator(value, name)
    return BuiltinMethodV(value, name)


def _of_generator(value: Value, name: str) -> Value:
    found = {"__name__": "name", "__qualname__": "qualname"}.get(name)
    if not isinstance(value, GeneratorV) or found is None:
        raise Break("attribute", f"built-in attribute {name!r}")
    return Const(getattr(value.frame.function, found))


def _named_tuple(cap: Capture, value: TupleV, name: str) -> Value:
    fields = getattr(value.cls, "_fields", ())
    if name in fields:
        return items_of(cap, value)[fields.index(name)]
    owner, raw = lookup(value.cls, name)
    if raw is MISSING:
        raise no_attribute(value.cls.__name__, name)
    if owner is tuple:
        return BuiltinMethodV(value, name)
    return bind(cap, raw, value, owner, name)


def _slice(cap: Capture, value: Any, name: str) -> Value:
    if name in ("start", "stop", "step"):
        return getattr(value, name)
    return _modelled(cap, value, name)


def _partial(cap: Capture, value: PartialV, name: str) -> Value:
    if name in value.attrs:
        return value.attrs[name]
    if name == "keywords":
        raise Break("attribute", "the keywords of a partial, which may be changed")
    found = {"func": lambda: value.func, "args": lambda: TupleV(list(value.args))}.get(name)
    if found is None:
        raise no_attribute("functools.partial", name)
    return found()


def _method(cap: Capture, value: MethodV, name: str) -> Value:
    if name in ("__func__", "__self__"):
        return value.func if name == "__func__" else value.obj
    return getattr_value(cap, value.func, name)


def _function(cap: Capture, value: FunctionV, name: str) -> Value:
    if name in value.special:
        return value.special[name]
    if name in value.attrs:
        return value.attrs[name]
    simple = {"__name__": value.name, "__qualname__": value.qualname, "__code__": value.code,
              "__doc__": value.code.co_consts[0] if value.code.co_consts and isinstance(
                  value.code.co_consts[0], str) else None,
              "__module__": value.globals.get("__name__"), "__type_params__": ()}
    if name == "__annotations__":
        return value.special.setdefault(name, DictV({}))
    if name in simple:
        return from_python(cap, simple[name])
    if name == "__defaults__":
        return value.defaults or Const(None)
    if name == "__kwdefaults__":
        return value.kwdefaults or Const(None)
    if name == "__dict__":
        return DictV(value.attrs)
    if name in ("__get__", "__call__"):
        return BuiltinMethodV(value, name)
    raise no_attribute("function", name)


def _super(cap: Capture, value: SuperV, name: str) -> Value:
    real = value.obj.value if isinstance(value.obj, Const) else None
    is_class = isinstance(real, type) and issubclass(real, value.cls)
    cls = real if is_class else type_of(value.obj)
    assert isinstance(cls, type)
    owner, raw = lookup(cls, name, after=value.cls)
    if raw is MISSING:
        raise no_attribute("super", name)
    if isinstance(value.obj, ObjectV):
        guard_class(cap, value.obj, name, lookup(cls, name)[1])
    if isinstance(raw, staticmethod) or (name == "__new__"):
        return Const(raw.__func__ if isinstance(raw, staticmethod) else raw)
    if is_class and isinstance(raw, types.ClassMethodDescriptorType):
        return MethodV(Const(raw), value.obj)
    if is_class:
        return MethodV(Const(raw.__func__), value.obj) if isinstance(raw, classmethod) else Const(raw)
    return bind(cap, raw, value.obj, owner, name)


def _library(cap: Capture, value: LibraryV, name: str) -> Value:
    if name in RULES:
        return BuiltinMethodV(value, name)
    return library_call(cap, getattr, [value, Const(name)], name=name)


def _cell(cap: Capture, value: CellV, name: str) -> Value:
    if name != "cell_contents":
        raise no_attribute("cell", name)
    if value.content is None:
        raise Raised(Const(ValueError("Cell is empty")))
    return OPERATIONS["cell_content"](cap, value)


# Classes of C whose instances have no attributes of their own, and methods that never change.
SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def _opaque(cap: Capture, value: OpaqueV, name: str) -> Value:
    """Methods are known for some classes; all else is looked up in Python."""
    cls = type_of(value)
    if cls in SUSPENDED and isinstance(lookup(cls, name)[1], types.MethodDescriptorType):
        return BuiltinMethodV(value, name)
    raise Break("attribute", f"{name!r} of a {cls.__qualname__}")


def _size(cap: Capture, value: SizeV, name: str) -> Value:
    return BuiltinMethodV(value, name)


def _iterator(cap: Capture, value: Value, name: str) -> Value:
    if name in ("__next__", "__iter__"):
        return BuiltinMethodV(value, name)
    raise Break("attribute", f"{name!r} of an iterator")


_READERS: dict[type, Any] = {
    **dict.fromkeys((SeqIterV, CountIterV, StreamV), _iterator),
    ObjectV: _object,
    ArrayV: arrays.attribute,
    Const: _const,
    **dict.fromkeys((TupleV, ListV, DictV, SetV, ViewV, GeneratorV), _modelled),
    SliceV: _slice,
    RangeV: _slice,
    PartialV: _partial,
    MethodV: _method,
    FunctionV: _function,
    SuperV: _super,
    LibraryV: _library,
    CellV: _cell,
    SizeV: _size,
    OpaqueV: _opaque,
    BuiltinMethodV: lambda cap, v, name: v.obj if name == "__self__" else Const(v.name) if name == "__name__"
    else (_ for _ in ()).throw(Break("attribute", f"{name!r} of a built-in method")),
}


# --- writing

# What a function keeps apart from its `__dict__`; the second ones say how it runs.
SPECIAL = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__")
FIXED_PARTS = ("__defaults__", "__kwdefaults__", "__code__", "__closure__", "__globals__", "__dict__")


def setattr_value(cap: Capture, target: Value, name: str, value: Value) -> None:
    if isinstance(target, (FunctionV, PartialV)) and target.source is None:
        mutating(cap, target)
        if isinstance(target, FunctionV) and name in FIXED_PARTS:
            raise Break("store", f"a store to {name!r} of a function")
        (target.special if isinstance(target, FunctionV) and name in SPECIAL else target.attrs)[name] = value
    elif isinstance(target, ObjectV):
        _set_object(cap, target, name, value)
    elif isinstance(target, CellV) and name == "cell_contents":
        mutating(cap, target)
        target.content = value
    elif isinstance(target, Const) and isinstance(target.value, type):
        class_attrs.store(cap, target.value, name, value)
    elif isinstance(target, Const) and type(target.value) is types.ModuleType:
        write_global(cap, vars(target.value), None, name, value)
    elif isinstance(target, (Const, TupleV, ListV, DictV, SetV, ArrayV)):
        raise Break("store", f"a store to {name!r} of a {type_of(target).__name__}")
    else:
        raise Break("store", f"a store to {name!r}")


def _set_object(cap: Capture, target: ObjectV, name: str, value: Value) -> None:
    _, hook = lookup(target.cls, "__setattr__")
    if isinstance(hook, types.FunctionType) and not is_pure_module(hook.__module__):
        cap.call(Const(hook), [target, Const(name), value])
        return
    if isinstance(hook, types.FunctionType) and target.real is not None:
        raise Break("store", f"{target.cls.__qualname__} forbids or intercepts stores ({name!r})")
    object_setattr(cap, target, name, value)


def has_dict(cls: type) -> bool:
    """Whether instances have a dictionary (a thread local object: one in each thread)."""
    return bool(cls.__dictoffset__) or issubclass(cls, threading.local)


def object_setattr(cap: Capture, target: ObjectV, name: str, value: Value) -> None:
    """`object.__setattr__`: data descriptors first, then the instance's own entry."""
    _, raw = lookup(target.cls, name)
    if isinstance(raw, property):
        if raw.fset is None:
            raise Raised(Const(AttributeError(f"property {name!r} of {target.cls.__name__!r} object has no setter")))
        cap.call(from_python(cap, raw.fset), [target, value])
        return
    if isinstance(raw, types.GetSetDescriptorType) and issubclass(target.cls, BaseException):
        OPERATIONS["exception_store"](cap, target, name, value)
        return
    if raw is not MISSING and _is_data_descriptor(raw) and not isinstance(raw, types.MemberDescriptorType):
        _, setter = lookup(type(raw), "__set__")
        if not isinstance(setter, types.FunctionType):
            raise Break("store", f"descriptor {type(raw).__qualname__} in {name!r}")
        cap.call(Const(setter), [from_python(cap, raw), target, value])
        return
    if not isinstance(raw, types.MemberDescriptorType) and not has_dict(target.cls):
        raise _refused(target.cls, lambda probe: object.__setattr__(probe, name, None))
    mutating(cap, target)
    target.attrs[name] = value
    target.written.add(name)


def delattr_value(cap: Capture, target: Value, name: str) -> None:
    if isinstance(target, Const) and isinstance(target.value, type):
        class_attrs.delete(cap, target.value, name)
        return
    if not isinstance(target, ObjectV):
        raise Break("store", f"deletion of {name!r}")
    _, hook = lookup(target.cls, "__delattr__")
    if isinstance(hook, types.FunctionType):
        cap.call(Const(hook), [target, Const(name)])
        return
    object_delattr(cap, target, name)


def object_delattr(cap: Capture, target: ObjectV, name: str) -> None:
    """`object.__delattr__`."""
    _, raw = lookup(target.cls, name)
    if isinstance(raw, property):
        if raw.fdel is None:
            raise Raised(Const(AttributeError(f"property {name!r} of {target.cls.__name__!r} object has no deleter")))
        cap.call(from_python(cap, raw.fdel), [target])
        return
    deleter = lookup(type(raw), "__delete__")[1] if raw is not MISSING else MISSING
    if isinstance(deleter, types.FunctionType):
        cap.call(Const(deleter), [from_python(cap, raw), target])
        return
    if instance_attribute(cap, target, name) is None:
        raise _refused(target.cls, lambda probe: object.__delattr__(probe, name))
    mutating(cap, target)
    if target.view is not None:
        del target.attrs[name]
    else:
        target.attrs[name] = DELETED
    target.written.add(name)


OPERATIONS["getattr"] = getattr_value
OPERATIONS["special"] = special
OPERATIONS["instance_attribute"] = instance_attribute
