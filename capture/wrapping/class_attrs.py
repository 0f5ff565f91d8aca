"""Attributes of classes: read along the MRO, guarded, stored and deleted.

A class is a constant; its attributes are not. What the captured code relied on is guarded: functions
and descriptors by identity (`type_unchanged`), plain data by its value, with the classes before its
owner guarded not to hide it. A store (`Counter.made += 1`, `setattr(cls, ...)`) waits in
`cap.effects.classes` until the effects are replayed; reads look there first.
"""

from __future__ import annotations

import enum
import types
from typing import Any

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import entries, module_name, mro
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bytecode.code import VERSION
from dynacomp.capture.symbolic.libraries import is_pure_module, is_steady_module, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import changing_outside
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.objects import DELETED
from dynacomp.capture.values.questions import is_function, own_class
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.class_prototypes import Placeholder, is_made, made_class, stand_in
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.immutability import is_python_class

MISSING = object()
SIMPLE = (types.GetSetDescriptorType, types.MemberDescriptorType)
IMMUTABLE_TYPE, HEAP = 1 << 8, 1 << 9  # Py_TPFLAGS_*


def behind(cls: type, after: type) -> tuple[type, ...]:
    """The classes after `after` in the MRO."""
    if not mro(cls):
        raise Break("attribute", "super() of a class that is being made")
    if after not in mro(cls):
        raise Break("attribute", f"super() of {after.__qualname__}, which the class's own mro() leaves out")
    return mro(cls)[mro(cls).index(after) + 1:]


def lookup(cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """(owner, raw attribute) along the MRO, after class `after` if given; (None, MISSING) if absent."""
    for base in mro(cls) if after is None else behind(cls, after):
        table = entries(base)
        if name in table:
            return base, table[name]
    return None, MISSING


# Special methods that C classes have; another one in their place (`__setattr__ = dict.__setitem__`) is the program's.
NATIVE = ("__getattribute__", "__setattr__", "__delattr__", "__get__", "__set__", "__delete__")


def is_hook(raw: Any) -> bool:
    """Whether a class attribute with the name of a special method is anything but what C classes have there."""
    return raw is not MISSING and not (isinstance(raw, types.WrapperDescriptorType) and raw.__name__ in NATIVE)


def is_programs(raw: Any) -> bool:
    """Whether such a method is the program's own, not one of the standard library or another that keeps its ways."""
    return is_hook(raw) and not (isinstance(raw, types.FunctionType) and is_steady_module(module_of(raw)))


def hides_entry(cls: type, name: str) -> bool:
    """Whether a descriptor of the class stands before the instance's own entry, which only its dictionary reaches."""
    owner, raw = lookup(cls, name)
    return owner is not None and not isinstance(raw, SIMPLE) and (
        hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__"))


def name_in_errors(cls: type) -> str:
    """How Python's own errors call a class: one in C by its module too.

        >>> name_in_errors(types.SimpleNamespace), name_in_errors(dict)
        ('types.SimpleNamespace', 'dict')
    """
    in_c = not cls.__flags__ & HEAP and module_name(cls) != "builtins"
    return f"{module_name(cls)}.{cls.__name__}" if in_c else cls.__name__


def written(cap: Capture, cls: type, name: str) -> Value | None:
    """What the captured code has stored as `name` in `cls` or a base, where that is what a lookup finds."""
    if not cap.effects.classes:
        return None
    for base in mro(cls):
        _, pending = cap.effects.classes.get((id(base), name), (base, None))
        if pending is not None and pending is not DELETED:
            return pending
        if pending is DELETED and any(name in entries(b) for b in behind(cls, base)):
            raise Break("store", f"a deleted {name!r} of a class whose base has it too")
        if pending is DELETED or name in entries(base):
            return None
    return None


def is_deleted(cap: Capture, cls: type, name: str) -> bool:
    """Whether the captured code has deleted the only `name` that a lookup in `cls` would find."""
    owner, _ = lookup(cls, name)
    return cap.effects.classes.get((id(owner), name), (owner, None))[1] is DELETED


def class_source(cap: Capture, cls: type) -> S.Source:
    return cap.known.anew.get(id(cls)) or S.Root(cls, cls.__qualname__)


def guard_class(cap: Capture, cls: type, name: str, raw: Any) -> None:
    """The class still finds this object (MISSING: nothing) under this name. Built-in classes do not change,
    and plain data is guarded by its value, see `class_data`. What the captured code makes has bases that do."""
    if is_made(cap, cls):
        for base in mro(cls)[1:] if name not in entries(cls) else ():
            guard_class(cap, base, name, lookup(base, name)[1])
    elif cls.__flags__ & HEAP and not cls.__flags__ & IMMUTABLE_TYPE and (name.startswith("__") or not is_data(raw)):
        cap.rely(cls, name, NotImplemented if raw is MISSING else raw)


def resolve(cap: Capture, cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """`lookup`, and the guard that it finds the same next time."""
    known = cap.known.resolved.get((id(cls), name, id(after)))
    if known is None:
        known = cap.known.resolved[id(cls), name, id(after)] = (*_resolve(cap, cls, name, after), cls, after)
    return known[:2]


def _resolve(cap: Capture, cls: type, name: str, after: type | None) -> tuple[type | None, Any]:
    owner, raw = lookup(cls, name, after)
    if after is None:
        guard_class(cap, cls, name, raw)
        return owner, raw
    passed = behind(cls, after)
    for base in passed[:passed.index(owner) + 1] if owner is not None else passed:
        guard_class(cap, base, name, lookup(base, name)[1])
    return owner, raw


def is_data(raw: Any) -> bool:
    """A class attribute that is a number, a string, None: it is guarded by value, and may change."""
    return type(raw) in (int, float, str, bool, type(None)) or is_literal(raw)


def class_data(cap: Capture, cls: type, owner: type, raw: Any, name: str) -> Value:
    """A class attribute that is plain data, found in `owner`, as the program reads it through `cls`."""
    for base in mro(cls)[:mro(cls).index(owner)]:
        if is_python_class(base) and not is_made(cap, base):
            cap.guards.add("missing", class_source(cap, base), name)
    return class_value(cap, raw, owner, name)


def class_value(cap: Capture, raw: Any, owner: type | None, name: str) -> Value:
    """A class attribute as a Value; mutable ones are found again through the class."""
    if is_made(cap, owner):
        return from_python(cap, raw)
    if owner is None or isinstance(raw, CONSTANT):
        return Const(raw)
    return wrap(cap, raw, S.Attr(class_source(cap, owner), name)) if has_own_state(owner) else from_python(cap, raw)


CONSTANT = (types.FunctionType, type, types.BuiltinFunctionType)


def has_own_state(owner: type) -> bool:
    """Whether objects that a class keeps may change: those of C and of libraries that promise purity do not."""
    return is_python_class(owner) and not is_pure_module(module_name(owner))


def static_method(cap: Capture, raw: staticmethod, owner: type | None, name: str) -> Value:
    """What a staticmethod holds: any object, which is found again through its class."""
    held: Any = raw.__func__
    if is_made(cap, raw):
        return from_python(cap, held)
    if owner is None or isinstance(held, (CompiledFunction, *CONSTANT)) or not has_own_state(owner):
        return class_value(cap, held, None if isinstance(held, CompiledFunction) else owner, name)
    return wrap(cap, held, S.Get(S.Attr(class_source(cap, owner), name), "__func__"))


def class_method(cap: Capture, raw: classmethod, cls: type) -> Value:
    """What a classmethod gives for `cls`. Before Python 3.13 it asked a descriptor that it wraps."""
    fn: Any = raw.__func__
    getter = resolve(cap, type(fn), "__get__")[1]
    if VERSION >= (3, 13) or isinstance(fn, types.FunctionType) or getter is MISSING:
        return MethodV(from_python(cap, fn), Const(cls))
    if isinstance(fn, classmethod):
        return class_method(cap, fn, cls)
    if isinstance(fn, property) and fn.fget is not None:
        return cap.call(from_python(cap, fn.fget), [Const(cls)])
    if isinstance(getter, types.FunctionType):
        return cap.call(Const(getter), [from_python(cap, fn), Const(cls), Const(cls)])
    if isinstance(fn, types.MethodType):
        return from_python(cap, raw.__get__(None, cls))
    raise Break("attribute", f"a classmethod around a {type(fn).__qualname__}")


def through_instance(value: Value, found: Value) -> Value:
    """A stored class attribute as an instance sees it: functions are bound."""
    return MethodV(found, value) if is_function(found) else found


# --- reading

STORED_IN_C = ("__name__", "__qualname__", "__mro__", "__bases__")
OF_LAYOUT = ("__base__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__")
OF_TYPE = (*STORED_IN_C, "__class__", "__dict__")


def read_class(cap: Capture, cls: type, name: str) -> Value:
    """`cls.name`, by the metaclass's own `__getattribute__` and `__getattr__`, if it has them."""
    hooked = is_programs(resolve(cap, type(cls), "__getattribute__")[1])
    try:
        if hooked:
            return cap.call(cap.special(Const(cls), "__getattribute__"), [Const(name)])  # type: ignore[arg-type]
        return type_read(cap, cls, name)
    except Raised as raised:
        fallback = resolve(cap, type(cls), "__getattr__")[1]
        if not is_programs(fallback) or not issubclass(type_of(raised.value), AttributeError):
            raise
        return cap.call(cap.special(Const(cls), "__getattr__"), [Const(name)])  # type: ignore[arg-type]


def type_read(cap: Capture, cls: type, name: str) -> Value:
    """`type.__getattribute__`: metaclass data descriptors, the MRO, then the metaclass."""
    pending = written(cap, cls, name)
    if pending is not None:
        return pending
    owner, raw = resolve(cap, cls, name)
    if owner is None or name in OF_TYPE or is_deleted(cap, cls, name) or _by_metaclass(cls, name, owner):
        return from_metaclass(cap, cls, name)
    if is_data(raw) and lookup(cls, "__getattribute__")[1] is object.__getattribute__:
        return class_data(cap, cls, owner, raw, name)
    if isinstance(raw, classmethod):
        return class_method(cap, raw, cls)
    if isinstance(raw, staticmethod):
        return static_method(cap, raw, owner, name)
    if type(raw) in GIVEN_AS_THEY_ARE or isinstance(raw, property) and (
            lookup(type(raw), "__get__")[1] is PROPERTY_GET):
        return from_python(cap, raw) if is_made(cap, raw) else Const(raw)
    return _by_descriptor(cap, cls, raw, owner, name)


PROPERTY_GET = vars(property)["__get__"]
GIVEN_AS_THEY_ARE = (types.FunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)


def _by_metaclass(cls: type, name: str, owner: type) -> bool:
    """Whether a data descriptor of the metaclass answers, which goes before what is found in `cls` and its bases.
    (Those of `type` look in the class's own dictionary, where classes have most names.)"""
    return hides_entry(type(cls), name) or name == "__abstractmethods__" and owner is not cls


def _by_descriptor(cap: Capture, cls: type, raw: Any, owner: type, name: str) -> Value:
    if isinstance(raw, Placeholder):
        return OPERATIONS.through(cap, cap.known.objects[id(raw)], Const(None), Const(cls))
    getter = lookup(type(raw), "__get__")[1]
    if isinstance(getter, types.FunctionType) and not is_pure_module(module_of(getter)):
        descriptor = class_value(cap, raw, owner, name)
        return cap.call(Const(getter), [descriptor, Const(None), Const(cls)])
    found = _by_python(cap, cls, name)
    if isinstance(raw, SIMPLE) or getter is not MISSING:
        return Const(found) if isinstance(found, types.BuiltinMethodType) else _standing(cap, found, name)
    return class_value(cap, found, owner, name)


def _by_python(cap: Capture, cls: type, name: str) -> Any:
    """What Python finds; a `__getattr__` of the program's is not asked."""
    own = is_programs(lookup(type(cls), "__getattr__")[1])
    try:
        return type.__getattribute__(cls, name) if own else getattr(cls, name)
    except ours(Exception) as error:
        raise Raised(Const(error)) from None


def from_metaclass(cap: Capture, cls: type, name: str) -> Value:
    """An attribute that the metaclass gives its classes."""
    written = [kind for kind, _ in cap.effects.classes.values()]
    if (id(cls), name) in cap.effects.classes or name == "__dict__" and any(kind is cls for kind in written):
        if name == "__dict__":
            raise Break("store", "the __dict__ of a class whose attributes the captured code has changed")
        raise Raised(Const(AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name)))
    _, raw = resolve(cap, type(cls), name)
    if isinstance(raw, types.FunctionType):
        return MethodV(Const(raw), Const(cls))
    if isinstance(raw, property) and raw.fget is not None:
        return cap.call(Const(raw.fget), [Const(cls)])
    if isinstance(lookup(type(raw), "__get__")[1], types.FunctionType):
        raise Break("attribute", f"descriptor {type(raw).__qualname__} of a metaclass in {name!r}")
    found = _by_python(cap, cls, name)
    if is_made(cap, cls):
        if name not in (*STORED_IN_C, *OF_LAYOUT, "__class__"):
            raise Break("attribute", f"{name!r} of a class that the captured code makes")
        return from_python(cap, found)
    if name == "__dict__" or name in STORED_IN_C and is_python_class(cls) and not is_pure_module(module_name(cls)):
        return wrap(cap, found, S.Get(class_source(cap, cls), name))
    return _standing(cap, found, name)


def _standing(cap: Capture, found: Any, name: str) -> Value:
    """A constant that a class has. Where the call was given that very object, another call may be given another."""
    known = cap.known.objects.get(id(found))
    if known is not None and known.source is not None:
        return wrap(cap, found, S.Root(found, f"<{name}>"))
    return from_python(cap, found)


# --- writing


def store(cap: Capture, cls: type, name: str, value: Value) -> None:
    """`cls.name = value`."""
    if not _by_hook(cap, cls, "__setattr__", [Const(name), value]):
        type_store(cap, cls, name, value)


def delete(cap: Capture, cls: type, name: str) -> None:
    """`del cls.name`."""
    if not _by_hook(cap, cls, "__delattr__", [Const(name)]):
        type_store(cap, cls, name, DELETED)


def _by_hook(cap: Capture, cls: type, hook: str, args: list[Value]) -> bool:
    """Whether the metaclass has a method of its own for this, which is entered."""
    found = resolve(cap, type(cls), hook)[1]
    if not is_hook(found) or issubclass(cls, enum.Enum):
        return False
    cap.call(cap.special(Const(cls), hook), args)  # type: ignore[arg-type]
    return True


def type_store(cap: Capture, cls: type, name: str, value: Any) -> None:
    """`type.__setattr__` and `type.__delattr__` (value: DELETED)."""
    if is_made(cap, cls):
        store_in_made(cap, cls, name, value)
        return
    what = f"a store to {name!r} of class {cls.__qualname__}"
    if cls.__flags__ & IMMUTABLE_TYPE or not cls.__flags__ & HEAP:
        _refused(cls, name)
    known = resolve(cap, type(cls), name)[1]
    if isinstance(known, property) and known.fset is not None and value is not DELETED:
        cap.call(Const(known.fset), [Const(cls), value])
        return
    if name.startswith("__") or known is not MISSING or issubclass(cls, enum.Enum) or is_pure_module(module_name(cls)):
        raise Break("store", what)
    if any(hasattr(own_class(value), n) for n in ("__get__", "__set__", "__set_name__")):
        raise Break("store", f"{what}: a descriptor")
    changing_outside(cap, what)
    held = written(cap, cls, name) is not None or name in entries(cls) and not is_deleted(cap, cls, name)
    if value is DELETED and not held:
        raise Raised(Const(AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")))
    cap.effects.classes[id(cls), name] = cls, value
    if value is DELETED and name not in entries(cls):
        del cap.effects.classes[id(cls), name]  # made and deleted again


def store_in_made(cap: Capture, cls: type, name: str, value: Any) -> None:
    """The same for a class that the captured code makes: the specimen has it at once."""
    if hasattr(type(lookup(type, name)[1]), "__set__") and not (name in NAMES and is_const(value)):
        raise Break("store", f"a store to {name!r} of a class that the captured code makes")
    changing_outside(cap, f"a store to {name!r} of class {cls.__qualname__}")
    try:
        if value is DELETED:
            type.__delattr__(cls, name)
        else:
            type.__setattr__(cls, name, stand_in(cap, value))
    except (AttributeError, TypeError, ValueError) as error:
        raise Raised(Const(error)) from None
    made_class(cap, cls).steps.append((name, value))  # type: ignore[union-attr]
    cap.known.resolved.clear()
    cap.known.telling.clear()


NAMES = ("__name__", "__qualname__", "__module__", "__doc__")


def _refused(cls: type, name: str) -> None:
    try:
        type.__setattr__(cls, name, None)
    except TypeError as error:
        raise Raised(Const(error)) from None
