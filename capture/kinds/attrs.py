"""Attributes: `getattr` on Values, by Python's own rules; each kind of Value has its own `Kind.getattr`.

Instances of Python classes are in object_attrs.py, stores and deletions in stores.py.
"""

from __future__ import annotations

import enum
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.ref
import numpy as np

from dynacomp.capture.arithmetic import arrays
from dynacomp.capture.base.classes import module_name, mro, own_dict
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bodies.lossy_trees import is_function_like
from dynacomp.capture.kinds.exceptions import as_exception, say_where
from dynacomp.capture.numbers import dynamic_scalars, host_functions
from dynacomp.capture.symbolic.generators import delegate
from dynacomp.capture.symbolic.libraries import CONTEXTS, is_library, is_pure_module, is_settled
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing.library_objects import decorated
from dynacomp.capture.tracing.settings import MANAGER, held, holding
from dynacomp.capture.tracing.trace_call import RULES, library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BuiltinMethodV, FunctionV, MethodV, PartialV, SuperV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NeedsConcrete, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, holds, is_open, object_of, peek
from dynacomp.capture.values.containers import DictV, ListV, RangeV, SetV, SliceV, TupleV, ViewV
from dynacomp.capture.values.iterators import CountIterV, GeneratorV, GivenIterV, SeqIterV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_dict, is_library_object, is_object, is_tuple
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.builder import JITTED, is_plain_instance, items_of, wrap
from dynacomp.capture.wrapping.builtin_subclasses import MUTABLE
from dynacomp.capture.wrapping.class_attrs import MISSING, SIMPLE, is_hook, lookup, name_in_errors, read_class, resolve
from dynacomp.capture.wrapping.class_prototypes import is_made
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.immutability import is_changeable, is_python_class
from dynacomp.capture.wrapping.object_attrs import (
    bind,
    hook,
    is_data_descriptor,
    is_librarys,
    no_attribute,
    object_attribute,
)

# (type of a constant, method name) → row(cap, obj, *args): tree structures, ...
CONST_METHODS: dict[tuple[type, str], Any] = {}


def attribute_name(name: Value) -> str:
    """An attribute's name; Python says what it refuses as one."""
    if type_of(name) is not str:
        raise Break("raises", "an attribute's name that is no string")
    return as_python(name)


def getattr_value(cap: Capture, value: Value, name: str) -> Value:
    reader = kind(value).getattr
    if reader is None:
        raise Break("attribute", f"{name!r} of a {type(value).__name__}")
    try:
        return reader(cap, value, name)
    except Raised as raised:
        say_where(cap, raised, value, name)
        raise


def special(cap: Capture, value: Value, name: str) -> Value | None:
    """A special method as an operator finds it: on the type, past the instance and `__getattr__`."""
    if not is_object(value) and not holds(value, type):
        return getattr_value(cap, value, name) if has_attribute(cap, value, name) else None
    owner, raw = resolve(cap, type_of(value), name)
    if raw is MISSING or raw is None:
        return None
    return bind(cap, raw, value, owner, name)


define(ObjectV, Kind(special=special))


def is_known_to_have(value: Value, name: str) -> bool | None:
    has = kind(value).has
    return None if has is None else has(value, name)


def has_attribute(cap: Capture, value: Value, name: str) -> bool:
    known = is_known_to_have(value, name)
    if known is not None:
        return known
    try:
        getattr_value(cap, value, name)
    except Raised as raised:
        if issubclass(type_of(raised.value), AttributeError):
            return False
        raise
    return True


# --- the kinds of Values


def _object(cap: Capture, value: ObjectV, name: str) -> Value:
    """By the class's `__getattribute__`, then its `__getattr__`, which only the type's slot asks: neither
    `object.__getattribute__` nor one of the program's does."""
    owner, raw = resolve(cap, value.cls, "__getattribute__")
    try:
        if not is_hook(raw) or is_librarys(raw):
            return object_attribute(cap, value, name)
        return cap.call(bind(cap, raw, value, owner, "__getattribute__"), [Const(name)])
    except Raised as raised:
        fallback = hook(cap, value, "__getattr__") if issubclass(type_of(raised.value), AttributeError) else None
        if fallback is None:
            raise
    return cap.call(fallback, [Const(name)])


def _const(cap: Capture, value: Const, name: str) -> Value:
    kept = _row_of(type(peek(value)))
    found = None if kept is None else kept(cap, value, name)
    return _found(cap, value, name) if found is None else found


@remembered
def _row_of(cls: type) -> Callable[[Capture, Const, str], Value | None] | None:
    return next((row for classes, row in OF_CONSTANTS if issubclass(cls, classes)), None)


def _found(cap: Capture, value: Const, name: str) -> Value:
    """What an object answers that is known by its identity, and where it keeps that if the next call may have another
    there."""
    obj = value.value
    if value.source is not None and is_changeable(obj):
        raise Break("opaque", f"{name!r} of a {type(obj).__qualname__}")
    if (type(obj), name) in CONST_METHODS:
        return BuiltinMethodV(value, name)
    if name in EVALUATED and module_name(type(obj)) == "typing":
        raise Break("attribute", f"{name!r} of a {type(obj).__name__}, which is evaluated when it is first asked for")
    try:
        with holding(held(cap)):
            found = getattr(obj, name)
    except ours(Exception) as error:  # a property's own
        raise Raised(Const(error)) from None
    if isinstance(found, (types.BuiltinMethodType, types.MethodWrapperType)) and found.__self__ is obj:
        return BuiltinMethodV(value, name)
    kept = None if is_made(cap, obj) else _where_kept(value, name, found)
    if kept is None and isinstance(found, HANDED_OUT) and getattr(obj, name) is found:
        kept = _handed_out(value, name, found)
        if kept is None:
            raise Break("opaque", f"{name!r} of a {type(obj).__qualname__}, which has it for others to change")
    return from_python(cap, found) if kept is None else wrap(cap, found, kept)


HANDED_OUT = (list, dict, set, bytearray)  # by reference


def _where_kept(value: Const, name: str, found: Any) -> S.Source | None:
    """Where a library's object keeps `found`, in its dictionary or a slot: at the next call it may be another."""
    if not is_plain_instance(value.value):
        return None
    base = value.source or S.Root(value.value, type(value.value).__qualname__)
    raw = lookup(type(value.value), name)[1]
    if isinstance(raw, types.MemberDescriptorType):
        return S.Slot(base, name, raw)
    return S.Attr(base, name) if own_dict(value.value).get(name, MISSING) is found else None


def _handed_out(value: Const, name: str, found: Any) -> S.Source | None:
    """Where a library's function, or what `jax.jit` or `jax.custom_jvp` has made of one, keeps a container:
    `functools.wraps` reads it."""
    obj: Any = value.value
    base = value.source or S.Root(obj, getattr(obj, "__qualname__", type(obj).__qualname__))
    known = isinstance(obj, (types.FunctionType, JITTED))
    if name == "__dict__" and (known or is_plain_instance(obj)):
        return S.DictOf(base)
    if not known:
        return None
    if isinstance(obj, types.FunctionType) and name in FUNCTION_PARTS:
        return S.Get(base, name)
    return S.Attr(base, name) if own_dict(obj).get(name, MISSING) is found else None


EVALUATED = ("__value__", "__bound__", "__constraints__", "__default__")  # of PEP 695: by code of the program
STORED = {"value": "_value_", "name": "_name_"}


def _of_member(cap: Capture, value: Const, name: str) -> Value | None:
    """What an enum's member keeps under `name`, which may change though the member is a constant; None where
    its class answers."""
    member = value.value
    base = S.Root(member, f"{type(member).__qualname__}.{own_dict(member).get('_name_')}")
    if name == "__dict__":
        if is_made(cap, member):
            raise Break("attribute", "the __dict__ of a member of an enumeration that the captured code makes")
        return wrap(cap, own_dict(member), S.DictOf(base))
    owner, raw = lookup(type(member), name)
    stored = STORED.get(name, name) if owner is None or owner is enum.Enum and name in STORED else name
    if type(raw) is property and is_made(cap, raw):
        return cap.call(from_python(cap, raw.fget), [value])
    if stored not in own_dict(member) or stored == name and owner is not None and is_data_descriptor(raw):
        return None
    if is_made(cap, member):
        return from_python(cap, own_dict(member)[stored])
    return wrap(cap, own_dict(member)[stored], S.Attr(base, stored))


FUNCTION_PARTS = ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__closure__", "__code__",
                  "__globals__", "__annotations__", "__doc__", "__module__", "__type_params__")


def _function_part(cap: Capture, value: Const, name: str) -> Value | None:
    """What a function of the program, or one made anew, has under `name` at each call; None where its class
    answers, or a library has made it."""
    fn = peek(value)
    if not is_open(value) and is_library(fn):
        return None
    base = value.source or S.Root(fn, fn.__qualname__)
    if name in FUNCTION_PARTS and hasattr(fn, name) or name == "__dict__":
        return wrap(cap, getattr(fn, name), S.Get(base, name))
    noted = _written(cap, own_dict(fn), name)
    if noted is DELETED:
        raise no_attribute("function", name)
    if noted is not None:
        return cap.realize(noted)  # type: ignore[no-any-return]
    if name in own_dict(fn):
        return wrap(cap, own_dict(fn)[name], S.Attr(base, name))
    if not hasattr(types.FunctionType, name):
        cap.guards.add("missing", base, name)
        raise no_attribute("function", name)
    return None


def intercepts(cls: type) -> bool:
    """Whether to ask an instance for an attribute runs the program's code."""
    return any(is_hook(lookup(cls, name)[1]) for name in ("__getattribute__", "__getattr__"))


def _of_descriptor(cap: Capture, value: Const, name: str) -> None:
    if name == "__isabstractmethod__":
        kind = type(value.value).__name__
        raise Break("attribute", f"{name!r} of a {kind}, which asks the functions inside")


def _module(cap: Capture, value: Const, name: str) -> Value:
    module = value.value
    table = own_dict(module)
    called, pure = str(table.get("__name__", "?")), is_pure_module(table.get("__name__"))
    if not pure and type(module) is not types.ModuleType and intercepts(type(module)):
        raise Break("attribute", f"{name!r} of a {type(module).__qualname__}")
    written = _written(cap, table, name)
    if written is DELETED:
        raise Break("attribute", f"{name!r}, which was deleted from {called}")
    if written is not None:
        return cap.realize(written)
    if name == "__dict__":
        return wrap(cap, table, S.Root(table, f"vars({called})"))
    if name in table and (pure and type(table[name]) not in MUTABLE or is_settled(table, table[name])):
        cap.rely(table, name, table[name])
        return from_python(cap, table[name])
    if name in table:
        return _read_of_module(cap, module, table, name)
    if not pure:
        cap.lacks(table, S.Root(table, f"vars({called})"), name)
    fallback = table.get("__getattr__")
    if not pure and isinstance(fallback, types.FunctionType) and lookup(type(module), name)[0] is None:
        return cap.call(wrap(cap, fallback, S.Attr(S.Root(module, called), "__getattr__")), [Const(name)])
    try:
        return from_python(cap, getattr(module, name))
    except ours(Exception) as error:
        raise Raised(Const(error)) from None


def _read_of_module(cap: Capture, module: types.ModuleType, table: dict[str, Any], name: str) -> Value:
    """What a module holds. Functions, classes and modules are guarded once, as those among globals are."""
    known = cap.known.names.get((id(module), name))
    if known is not None and known.value is table[name]:
        return known
    value = wrap(cap, table[name], S.Attr(S.Root(module, str(table.get("__name__", "?"))), name))
    if type(value) is Const and not is_open(value):
        cap.known.names[id(module), name] = value
        cap.known.keep.append(module)
    return value


# Constants of these classes know where they keep what they are asked for; None: they are asked as all others are.
OF_CONSTANTS: tuple[tuple[Any, Callable[[Capture, Const, str], Value | None]], ...] = (
    (types.FunctionType, _function_part),
    (types.ModuleType, _module),
    (type, lambda cap, v, name: read_class(cap, v.value, name)),
    (BaseException, lambda cap, v, name: getattr_value(cap, as_exception(cap, v), name)),
    (enum.Enum, _of_member),
    ((property, classmethod, staticmethod), _of_descriptor),
)


def _written(cap: Capture, table: dict[str, Any], name: str) -> Any:
    """What captured code has put into a module's globals, or noted on a function; DELETED, or None where it changed
    nothing there."""
    seen = cap.known.objects.get(id(table))
    if is_dict(seen) and seen.dirty:  # the program also holds this table as a dict
        return seen.items.get(name, DELETED if name in table else None)
    _, _, value = cap.effects.globals.get((id(table), name), (None, None, MISSING))
    return None if value is MISSING else DELETED if value is None else value


def _modelled(cap: Capture, value: Value, name: str) -> Value:
    """Built-in containers and the like: methods are bound, nothing else is there."""
    cls = type_of(value)
    if name == "__class__":
        return Const(cls)
    if is_tuple(value) and cls is not tuple:
        return _named_tuple(cap, value, name)
    owner, raw = resolve(cap, cls, name)
    if raw is MISSING:
        raise no_attribute(name_in_errors(cls), name)
    if isinstance(raw, types.FunctionType):
        return MethodV(Const(raw), value)
    member = kind(value).member
    found = None if member is None else member(value, name)
    if found is None and isinstance(raw, SIMPLE):
        raise Break("attribute", f"built-in attribute {name!r}")
    return found or BuiltinMethodV(value, name)


def _of_dict(value: DictV, name: str) -> Value | None:
    return (value.factory or Const(None)) if name == "default_factory" else None


def _of_list(value: ListV, name: str) -> Value | None:
    return Const(value.extra) if name == "maxlen" else None


def _of_generator(value: GeneratorV, name: str) -> Value | None:
    if name in ("gi_yieldfrom", "cr_await") and not value.running:
        waits = delegate(value.frame) if value.started and not value.done else None
        return waits or Const(None)
    found = {"__name__": "name", "__qualname__": "qualname"}.get(name)
    return None if found is None or value.frame.function is None else Const(getattr(value.frame.function, found))


define(DictV, Kind(member=_of_dict))
define(ListV, Kind(member=_of_list))
define(GeneratorV, Kind(member=_of_generator))


def _named_tuple(cap: Capture, value: TupleV, name: str) -> Value:
    fields = getattr(value.cls, "_fields", ())
    if name in fields:
        return items_of(cap, value)[fields.index(name)]
    owner, raw = resolve(cap, value.cls, name)
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
    if name in OF_PARTIAL:
        return OF_PARTIAL[name](cap, value)
    changed = _written(cap, value.real.__dict__, name) if is_dict(value.noted) and value.source is not None else None
    if changed is DELETED:
        raise Break("attribute", f"{name!r}, which was deleted from a partial")
    if changed is not None or name in value.attrs:
        return cap.realize(value.attrs[name] if changed is None else changed)
    raw = lookup(functools.partial, name)[1]
    if raw is not MISSING and not is_literal(raw):
        raise Break("attribute", f"{name!r} of a partial")
    if value.source is not None:
        cap.guards.add("missing", value.source, name)
    if raw is not MISSING:  # its class's
        return Const(raw)
    raise no_attribute("functools.partial", name)


def _dict_of_partial(cap: Capture, value: PartialV) -> Value:
    """The `__dict__` of a partial, which has one from now on."""
    if value.noted is None and value.source is not None:
        if value.real is None:
            raise Break("attribute", "the __dict__ of a partial in a tree")
        value.noted = wrap(cap, value.real.__dict__, S.Get(value.source, "__dict__"))
    if value.noted is None:
        value.noted = DictV(value.attrs, owner=value)
    return value.noted  # type: ignore[no-any-return]


def keywords_of(cap: Capture, value: PartialV) -> Value:
    """The dict of a partial's named arguments: what is changed there, calls get."""
    if value.real is not None and value.source is not None:
        return wrap(cap, value.real.keywords, S.Get(value.source, "keywords"))
    if value.table is None:
        value.table = DictV(value.kwargs, owner=value)
    return value.table  # type: ignore[no-any-return]


OF_PARTIAL: dict[str, Callable[[Capture, PartialV], Value]] = {
    "func": lambda cap, v: v.func, "args": lambda cap, v: TupleV(list(v.args)), "keywords": keywords_of,
    "__class__": lambda cap, v: Const(functools.partial), "__dict__": _dict_of_partial}


def _method(cap: Capture, value: MethodV, name: str) -> Value:
    if name in ("__func__", "__self__"):
        return value.func if name == "__func__" else value.obj
    return getattr_value(cap, value.func, name)


def _function(cap: Capture, value: FunctionV, name: str) -> Value:
    noted = value.special.get(name) or value.attrs.get(name)
    if noted is not None:
        return noted  # type: ignore[no-any-return]
    if name in OF_NEW_FUNCTION:
        return OF_NEW_FUNCTION[name](cap, value)
    if hasattr(types.FunctionType, name):
        raise Break("attribute", f"{name!r} of a function that the captured code makes")
    raise no_attribute("function", name)


def _doc(cap: Capture, value: FunctionV) -> Value:
    first = value.code.co_consts[:1]
    return Const(first[0] if first and isinstance(first[0], str) else None)


def _closure(cap: Capture, value: FunctionV) -> Value:
    if value.closure and value.cells is None:
        value.cells = TupleV(list(value.closure))
    return value.cells or Const(None)


OF_NEW_FUNCTION: dict[str, Callable[[Capture, FunctionV], Value]] = {
    "__name__": lambda cap, v: Const(v.name),
    "__qualname__": lambda cap, v: Const(v.qualname),
    "__code__": lambda cap, v: from_python(cap, v.code),
    "__doc__": _doc,
    "__module__": lambda cap, v: from_python(cap, v.globals.get("__name__")),
    "__type_params__": lambda cap, v: from_python(cap, ()),
    "__annotations__": lambda cap, v: v.special.setdefault("__annotations__", DictV({})),
    "__defaults__": lambda cap, v: v.defaults or Const(None),
    "__kwdefaults__": lambda cap, v: v.kwdefaults or Const(None),
    "__dict__": lambda cap, v: DictV(v.attrs, owner=v),
    "__closure__": _closure,
    "__get__": lambda cap, v: BuiltinMethodV(v, "__get__"),
    "__call__": lambda cap, v: BuiltinMethodV(v, "__call__"),
    "__class__": lambda cap, v: Const(types.FunctionType),
}


def _super(cap: Capture, value: SuperV, name: str) -> Value:
    real = object_of(value.obj)
    is_class = isinstance(real, type) and value.cls in mro(real)  # not issubclass: a metaclass may answer that
    cls = real if is_class else type_of(value.obj)
    assert isinstance(cls, type)
    owner, raw = resolve(cap, cls, name, after=value.cls)
    if raw is MISSING:
        raise no_attribute("super", name)
    if isinstance(raw, staticmethod) or (name == "__new__"):
        return Const(raw.__func__ if isinstance(raw, staticmethod) else raw)
    if is_class and isinstance(raw, types.ClassMethodDescriptorType):
        return MethodV(Const(raw), value.obj)
    if is_class:
        return MethodV(Const(raw.__func__), value.obj) if isinstance(raw, classmethod) else Const(raw)
    return bind(cap, raw, value.obj, owner, name)


# Context managers that only name what is computed inside: a Graph keeps no such names. One that was entered is never
# made again where the captured code ends: its `__exit__` puts back what its `__enter__` has found.
NAMING = (jax.named_scope, type(jax.named_scope("")), jax.profiler.TraceAnnotation, jax.profiler.StepTraceAnnotation)


def do_nothing(*raised: Any) -> None:
    """The `__enter__` and the `__exit__` of a context manager that changes nothing."""


def _library(cap: Capture, value: LibraryV, name: str) -> Value:
    if name in ("__enter__", "__exit__") and value.make in NAMING:
        return BuiltinMethodV(value, name)
    if name in ("__enter__", "__exit__") and type(value.real) is MANAGER:
        return MethodV(Const(getattr(MANAGER, name)), value)
    if name in CONTEXTS:
        raise Break("with", f"{name} of a library's context manager")
    if name in RULES:
        return BuiltinMethodV(value, name)
    if name == "__dict__":
        return _dict_of_made(cap, value)
    if is_function_like(value.real) and _is_noted(cap, value, name) and value.source is not None:
        return wrap(cap, own_dict(value.real)[name], S.Attr(value.source, name))
    found = value.fields.get(name) or library_call(cap, getattr, [value, Const(name)], name=name)
    if is_library_object(found) and name in getattr(type(value.real), "_fields", ()):
        value.fields[name] = found
    return found


def _dict_of_made(cap: Capture, value: LibraryV) -> Value:
    """The `__dict__` of a function that a decorator of a library has made in this call: the entries of the program's
    function that it is made of, and that function."""
    inner = decorated(value)
    if inner is None:
        raise Break("attribute", "the dictionary of a library's object")
    return DictV({**inner.attrs, "__wrapped__": library_call(cap, getattr, [value, Const("__wrapped__")])})


def _is_noted(cap: Capture, value: LibraryV, name: str) -> bool:
    """Whether a function that JAX has made notes this beside its tree; raises as it would where nothing of that name
    is found."""
    noted = name in own_dict(value.real)
    if not noted and lookup(type(value.real), name)[1] is MISSING:
        if value.source is not None:
            cap.guards.add("missing", value.source, name)
        raise no_attribute(type(value.real).__name__, name)
    return noted


def _cell(cap: Capture, value: CellV, name: str) -> Value:
    if name != "cell_contents":
        raise no_attribute("cell", name)
    if value.content is None:
        raise Raised(Const(ValueError("Cell is empty")))
    return OPERATIONS.cell_content(cap, value)


def _opaque(cap: Capture, value: OpaqueV, name: str) -> Value:
    """The methods of its class, where nothing of the instance's own comes first; all else is looked up in Python."""
    cls = type_of(value)
    owner, raw = lookup(cls, name)
    if name == "__class__" and owner is object:
        return Const(cls)
    if name in REF_PARTS and cls is jax.ref.Ref and value.source is not None:
        return _of_ref(cap, value, name)
    if cls in weakref.ProxyTypes or not isinstance(raw, METHODS) or not _finds_methods(cap, value, name):
        raise Break("attribute", f"{name!r} of a {cls.__qualname__}")
    resolve(cap, cls, name)
    if isinstance(raw, CYTHON):
        return MethodV(Const(raw), value)
    if not isinstance(raw, types.MethodDescriptorType):
        return bind(cap, raw, value, owner, name)
    found = getattr(value.obj, name)
    if isinstance(found, types.BuiltinMethodType) and found.__self__ is value.obj and found.__name__ == name:
        return BuiltinMethodV(value, name)
    raise Break("attribute", f"{name!r} of a {cls.__qualname__}")


REF_PARTS = ("dtype", "ndim", "shape")


def _of_ref(cap: Capture, value: OpaqueV, name: str) -> Value:
    """What an array that is written in place keeps as long as it lives."""
    like, source = value.obj._aval, S.Attr(value.source, "_aval")  # type: ignore[arg-type]
    array, inner = like.inner_aval, S.Slot(source, "inner_aval", type(like).inner_aval)
    if type(array) is not jax.core.ShapedArray:
        raise Break("attribute", f"{name!r} of a Ref")
    cap.guards.add("is_type", source, type(like))
    cap.guards.add("is_type", inner, type(array))
    part = "dtype" if name == "dtype" else "shape"
    found = S.Slot(inner, part, getattr(type(array), part))
    if name != "ndim":
        return wrap(cap, getattr(array, part), found)
    cap.guards.add("len", found, len(array.shape))
    return Const(len(array.shape))


CYTHON: Any = type(np.random.RandomState.rand)  # functions that bind as those of Python do
METHODS = (types.FunctionType, types.MethodDescriptorType, CYTHON)


def _finds_methods(cap: Capture, value: OpaqueV, name: str) -> bool:
    """Whether an instance finds `name` in its class: by `object`'s look-up, and not in its own dictionary."""
    cls = type_of(value)
    if not cls.__dictoffset__:
        return not is_python_class(cls)
    if value.source is None or lookup(cls, "__getattribute__")[0] is not object or name in own_dict(value.obj):
        return False
    cap.guards.add("missing", value.source, name)
    return True


def _changing(cap: Capture, value: SizeV | ScalarV, name: str) -> Value:
    """An attribute of a number or string that changes: a method, or a part that is known without it."""
    kind = type(value.hint)
    if not hasattr(value.hint, name):  # not of its type, which has the attributes of types too
        raise Raised(Const(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name)))
    if isinstance(value.hint, np.generic):
        return dynamic_scalars.attribute(value, name)
    if kind in (int, float) and name == "real" or kind is int and name == "numerator":
        return value
    if kind in (int, float) and name in ("imag", "denominator"):
        return Const(getattr(kind(0), name))
    if name == "__class__":
        return Const(kind)
    if callable(getattr(value.hint, name)):
        return BuiltinMethodV(value, name)
    raise NeedsConcrete(host_functions.as_scalar(cap, value))  # type: ignore[arg-type]


def _iterator(cap: Capture, value: Value, name: str) -> Value:
    if name in ("__next__", "__iter__"):
        return BuiltinMethodV(value, name)
    raise Break("attribute", f"{name!r} of an iterator")


def _built_in_method(cap: Capture, value: BuiltinMethodV, name: str) -> Value:
    if name not in ("__self__", "__name__"):
        raise Break("attribute", f"{name!r} of a built-in method")
    return value.obj if name == "__self__" else Const(value.name)


for _cls, _reader in (
    *((cls, _iterator) for cls in (SeqIterV, CountIterV, StreamV, GivenIterV)),
    *((cls, _modelled) for cls in (TupleV, ListV, DictV, SetV, ViewV, GeneratorV)),
    (ObjectV, _object), (ArrayV, arrays.attribute), (NdArrayV, arrays.numpy_attribute), (Const, _const),
    (SliceV, _slice), (RangeV, _slice), (PartialV, _partial), (MethodV, _method), (FunctionV, _function),
    (SuperV, _super), (LibraryV, _library), (CellV, _cell), (SizeV, _changing), (ScalarV, _changing),
    (OpaqueV, _opaque), (BuiltinMethodV, _built_in_method),
):
    define(_cls, Kind(getattr=_reader))  # type: ignore[arg-type]

OPERATIONS.getattr = getattr_value
OPERATIONS.special = special
