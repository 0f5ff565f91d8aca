"""Making objects: classes called by the captured code, and `object`'s own methods.

A class is instantiated by Python's protocol: the metaclass's `__call__` if the user wrote one, then
`__new__`, then `__init__`, each entered when it is a Python function. Exceptions and NamedTuples
have their built-in parts modelled; dataclasses and Equinox modules are ordinary classes here.
"""

from __future__ import annotations

import decimal
import enum
import inspect
import threading
import types
from functools import partial
from typing import Any

from jax.tree_util import all_leaves

from dynacomp.capture.arithmetic.operators import fold, truth
from dynacomp.capture.base.classes import module_name, mro, own_dict
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.key_order import ByName
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bytecode.assignments import Assignment, assignments
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.calls.calls import BUILTINS, as_function, fold_call, is_plain_function
from dynacomp.capture.calls.payload_methods import construct
from dynacomp.capture.calls.signatures import bind
from dynacomp.capture.kinds import attrs, exceptions, stores
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.kinds.keys import raised
from dynacomp.capture.symbolic.libraries import is_host, is_library, is_pure_module, is_stateful, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing import equinox_modules
from dynacomp.capture.tracing.failures import is_made
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_const, stands_for
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.objects import DELETED, ObjectV
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping import class_attrs, object_attrs
from dynacomp.capture.wrapping.builtin_subclasses import BASES, is_bare_named_tuple, payload_base, plain
from dynacomp.capture.wrapping.class_prototypes import made_class
from dynacomp.capture.wrapping.immutability import is_python_class
from dynacomp.capture.wrapping.object_attrs import is_exception
from dynacomp.capture.wrapping.pytree_shells import attributes

HEAP = 1 << 9
KEPT_IN_C = types.MemberDescriptorType, types.GetSetDescriptorType  # what finds attributes outside a `__dict__`


def instantiate(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`cls(*args, **kwargs)`."""
    if issubclass(cls, enum.Enum):
        return fold_call(cap, cls, args, kwargs)
    if is_bare_named_tuple(cls):
        return _named_tuple(cap, cls, args, kwargs)
    if issubclass(cls, BaseException):
        return exceptions.instance_of(cap, cls, args, kwargs)
    if is_host(cls) and not is_stateful(cls):
        return library_call(cap, cls, args, kwargs)
    if attrs.lookup(cls, "__del__")[1] is not attrs.MISSING and not is_pure_module(module_name(cls)):
        raise Break("call", f"class {module_name(cls)}.{cls.__qualname__}, whose objects have a __del__")
    if _is_plain_class(cap, cls) or cls is object:
        return _by_protocol(cap, cls, args, kwargs)
    if is_library(cls):
        return library_call(cap, cls, args, kwargs)
    if cls is decimal.Decimal and any(is_const(plain(v)) and type_of(plain(v)) is float for v in args):
        raise Break("effect", "decimal arithmetic: a float that becomes a Decimal leaves a flag")
    if module_name(cls) in ("numpy", "ml_dtypes", "fractions", "decimal", "datetime", "pathlib", "re") or cls is bytes:
        return fold_call(cap, cls, args, kwargs)
    raise Break("call", f"class {module_name(cls)}.{cls.__qualname__}")


def _is_plain_class(cap: Capture, cls: type) -> bool:
    """A Python class whose instances the machine can model, and whose making has effects of its own
    only in code that it can enter."""
    new = attrs.lookup(cls, "__new__")
    if new[0] is types.SimpleNamespace:
        return True
    if not is_python_class(cls) or new[0] is not object and new[0] not in BASES and not isinstance(
            new[1], (staticmethod, types.FunctionType)):
        return False
    builtin = [b for b in mro(cls) if not b.__flags__ & HEAP]
    if builtin != [object] and payload_base(cls) is None:
        return False
    return not is_pure_module(module_name(cls)) or _has_user_init(cls) or is_made(cap, cls) or (
        equinox_modules.is_module(cap, cls))


def _has_user_init(cls: type) -> bool:
    owner, _ = attrs.lookup(cls, "__init__")
    return owner not in (None, object) and not is_pure_module(module_name(owner))  # type: ignore[union-attr]


def _by_protocol(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _, meta_call = class_attrs.resolve(cap, type(cls), "__call__")
    if isinstance(meta_call, type):  # a TypedDict's is `dict`: a class binds to nothing
        return cap.call(Const(meta_call), args, kwargs)
    if isinstance(meta_call, types.FunctionType) and not is_pure_module(module_of(meta_call)):
        return cap.call(Const(meta_call), [Const(cls), *args], kwargs)
    if equinox_modules.is_module(cap, cls):
        return new_module(cap, cls, args, kwargs)
    if isinstance(meta_call, types.FunctionType):
        raise Break("call", f"class {module_name(cls)}.{cls.__qualname__}, whose metaclass is a library's")
    return type_call(cap, cls, args, kwargs)


def _named_tuple(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _, new = class_attrs.resolve(cap, cls, "__new__")
    if isinstance(new, types.BuiltinFunctionType):
        return tuple_new(cap, Const(cls), *args)
    return cap.call(class_attrs.read_class(cap, cls, "__new__"), [Const(cls), *args], kwargs)


def type_call(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__call__`: `__new__`, then `__init__` when an instance came back."""
    _, new = class_attrs.resolve(cap, cls, "__new__")
    made: Value
    if class_attrs.resolve(cap, cls, "__del__")[0] is not None:  # it must run when the object dies, and not before
        raise Break("effect", f"a {cls.__qualname__} is made, which has a __del__")
    if isinstance(new, staticmethod) and isinstance(new.__func__, types.FunctionType):
        made = cap.call(Const(new.__func__), [Const(cls), *args], kwargs)
    elif not isinstance(new, types.BuiltinFunctionType):
        made = cap.call(class_attrs.read_class(cap, cls, "__new__"), [Const(cls), *args], kwargs)
    elif payload_base(cls) is not None:
        made = construct(cap, Const(cls), *args, **kwargs)
    else:
        made = object_new(cap, Const(cls))
    if not is_object(made) or cls not in mro(made.cls):
        return made
    _, init = class_attrs.resolve(cap, cls, "__init__")
    if isinstance(init, types.FunctionType) or init in BUILTINS or made.payload is not None and isinstance(
            init, types.WrapperDescriptorType):
        if not _fill(cap, made, init, args, kwargs):
            given = type_of(cap.call(Const(init), [made, *args], kwargs))
            if given is not types.NoneType and isinstance(init, types.FunctionType):
                text = f"__init__() should return None, not '{class_attrs.name_in_errors(given)}'"
                raise Raised(Const(TypeError(text)))
    elif not isinstance(init, types.WrapperDescriptorType):
        raise Break("call", f"{cls.__qualname__}.__init__")
    elif (args or kwargs) and isinstance(new, types.BuiltinFunctionType):
        raise Raised(Const(TypeError(f"{cls.__name__}() takes no arguments")))
    return made


def _fill(cap: Capture, made: ObjectV, init: Any, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether an `__init__` does nothing but store its arguments, as those of dataclasses: they are stored at once."""
    if not is_plain_function(init) or is_exception(made) or made_class(cap, made.cls) is not None:
        return False
    stored = assignments(decode(init.__code__))
    if stored is None or not all(_is_stored_there(cap, made.cls, init, one) for one in stored):
        return False
    given = bind(cap, as_function(cap, Const(init)), [made, *args], kwargs)
    for one in stored:
        stores.object_setattr(cap, made, one.attribute, given[one.argument])
    return True


def _is_stored_there(cap: Capture, cls: type, init: types.FunctionType, one: Assignment) -> bool:
    """Whether nothing but the object's own attribute changes: no descriptor, no `__setattr__` of the program's."""
    if one.setter is None:
        setter = class_attrs.resolve(cap, cls, "__setattr__")[1]
    else:
        cells = init.__closure__ or ()
        setter = getattr(cells[init.__code__.co_freevars.index(one.setter)].cell_contents, "__setattr__", None)
    raw = class_attrs.resolve(cap, cls, one.attribute)[1]
    plain = raw is class_attrs.MISSING or isinstance(raw, types.MemberDescriptorType) or is_literal(raw)
    return plain and setter is object.__setattr__ and not one.attribute.startswith("__")


def new_module(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What Equinox's metaclass makes of a module's class, also where the program's own calls it by `super()`."""
    return equinox_modules.finish(cap, type_call(cap, cls, args, kwargs))


def new_of_library(cap: Capture, cls: type, new: types.FunctionType) -> Value:
    """A library's `__new__` makes a bare instance, whoever calls it. Some make the program's class known to JAX as
    well, the first time (Distrax): that is done here and now, for then the machine too has to know it as a tree."""
    if equinox_modules.is_module(cap, cls):
        return equinox_modules.begin(cls)
    made = object_new(cap, Const(cls))
    if any(name.startswith("register_") for name in new.__code__.co_names) and all_leaves([object.__new__(cls)]):
        new(cls)
    return made


# --- methods of `object` on symbolic instances


def object_method(cap: Capture, name: str, obj: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    row = _OBJECT_METHODS.get(name)
    if row is None:
        raise Break("call", f"object.{name}")
    return row(cap, obj, *args, **kwargs)


def _getattribute(cap: Capture, obj: Value, name: Value) -> Value:
    if not is_object(obj):
        return cap.getattr(obj, attrs.attribute_name(name))
    try:
        return object_attrs.object_attribute(cap, obj, attrs.attribute_name(name))
    except Raised as refusal:
        exceptions.say_where(cap, refusal, obj, attrs.attribute_name(name))
        raise


def _setattr(cap: Capture, obj: Value, name: Value, value: Value) -> Value:
    if not is_object(obj):
        raise Break("store", "object.__setattr__ on a built-in object")
    stores.object_setattr(cap, obj, attrs.attribute_name(name), value)
    return Const(None)


def _delattr(cap: Capture, obj: Value, name: Value) -> Value:
    if not is_object(obj):
        raise Break("store", "object.__delattr__ on a built-in object")
    stores.object_delattr(cap, obj, attrs.attribute_name(name))
    return Const(None)


def _init(cap: Capture, obj: Value, *args: Value, **kwargs: Value) -> Value:
    if is_exception(obj):
        exceptions.initialise(cap, obj, *args, **kwargs)
    elif args or kwargs:
        _refuse_more(cap, type_of(obj), "__init__")
    return Const(None)


def _refuse_more(cap: Capture, cls: type, method: str) -> None:
    """`object` takes arguments that it has no use for in that one of its two methods which the class has not
    overridden, while the class has overridden the other, which takes them."""
    other, subject, said = OBJECT_TAKES[method]
    if class_attrs.resolve(cap, cls, method)[1] is not getattr(object, method):
        raise Raised(Const(TypeError(f"object.{method}() takes exactly one argument (the {subject})")))
    if class_attrs.resolve(cap, cls, other)[1] is getattr(object, other):
        raise Raised(Const(TypeError(cls.__name__ + said)))


OBJECT_TAKES = {
    "__new__": ("__init__", "type to instantiate", "() takes no arguments"),
    "__init__": ("__new__", "instance to initialize",
                 ".__init__() takes exactly one argument (the instance to initialize)"),
}


def _class_hook(cap: Capture, obj: Value, *args: Value, **kwargs: Value) -> Value:
    return Const(None)


def _eq(cap: Capture, a: Value, b: Value) -> Value:
    return Const(True) if a is b else Const(NotImplemented)


def _ne(cap: Capture, a: Value, b: Value) -> Value:
    """What `==` does not say."""
    method = cap.special(a, "__eq__")
    found = Const(NotImplemented) if method is None else cap.call(method, [b])
    return found if stands_for(found, NotImplemented) else Const(not truth(cap, found))


def _str(cap: Capture, obj: Value) -> Value:
    if is_exception(obj):
        return exceptions.text(cap, obj)
    raise Break("call", "the default repr, which shows an address")


def _repr(cap: Capture, obj: Value) -> Value:
    if is_exception(obj):
        return exceptions.representation(cap, obj)
    raise Break("leaves", "the default repr, which shows an address")


_OBJECT_METHODS: dict[str, Any] = {
    "__getattribute__": _getattribute, "__setattr__": _setattr, "__init__": _init,
    "__init_subclass__": _class_hook, "__eq__": _eq, "__ne__": _ne, "__str__": _str,
    "__repr__": _repr, **exceptions.METHODS,
    "__delattr__": _delattr,
}


def instance_dict(cap: Capture, obj: ObjectV) -> Value:
    """`vars(obj)`: a dict Value that shares its entries with the object."""
    if obj.view is None:
        if not obj.cls.__dictoffset__:
            raise object_attrs.no_attribute(obj.cls.__name__, "__dict__")
        found = attributes(cap, obj, ordered=False)
        if any(isinstance(attrs.lookup(obj.cls, n)[1], KEPT_IN_C) for n in found):
            raise Break("attribute", "__dict__ of an object that has slots too, or of an exception")
        if obj.source is None:
            obj.attrs.clear()
            obj.attrs.update(found)
        else:
            obj.attrs = ByName(found, partial(_rest_on_order, cap, obj))
        obj.view = DictV(obj.attrs, owner=obj)
    return obj.view


def _rest_on_order(cap: Capture, obj: ObjectV) -> None:
    table = S.ThreadDict if issubclass(obj.cls, threading.local) else S.DictOf
    cap.guards.add("keys", table(obj.source), tuple(own_dict(obj.real)))  # type: ignore[arg-type]


def object_new(cap: Capture, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    real = as_python(cls)
    if not isinstance(real, type):
        return fold(cap, object.__new__, cls)  # which refuses
    if issubclass(real, BaseException):
        return ObjectV(real, ctor=tuple(args), attrs={"args": TupleV(list(args))})
    if any(not b.__flags__ & HEAP and b not in (object, types.SimpleNamespace) for b in mro(real)):
        raise Break("call", f"{real.__qualname__}.__new__")
    if (args or kwargs) and not issubclass(real, types.SimpleNamespace):
        _refuse_more(cap, real, "__new__")
    if inspect.isabstract(real):
        return fold(cap, object.__new__, cls)  # which refuses, and says what is missing
    return ObjectV(real)


def tuple_new(cap: Capture, cls: Value, items: Value = Const(())) -> Value:
    real = as_python(cls)
    if not (isinstance(real, type) and issubclass(real, tuple)):
        return fold(cap, tuple.__new__, cls)  # which refuses
    if real is tuple or is_bare_named_tuple(real):
        return TupleV(list(iterate(cap, items)), real)
    return construct(cap, cls, items)


def metaclass_call(cap: Capture, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    return type_call(cap, as_python(cls), list(args), kwargs)


BUILTINS[object.__new__] = BUILTINS[types.SimpleNamespace.__new__] = object_new
BUILTINS[tuple.__new__] = tuple_new
def _type_store(cap: Capture, cls: Value, name: Value, value: Any = DELETED) -> Value:
    class_attrs.type_store(cap, as_python(cls), attrs.attribute_name(name), value)
    return Const(None)


def _kept_in_c(cap: Capture, descriptor: Value, value: Value, cls: Value = Const(None)) -> Value:
    """`type.__dict__["__mro__"].__get__(cls)`, as `inspect.getattr_static` reads: what the object keeps there, where
    its class has this very descriptor under that name."""
    part = as_python(descriptor)
    if stands_for(value, None):
        if stands_for(cls, None):
            raise raised(TypeError, "__get__(None, None) is invalid")
        return descriptor
    kept_by, name = part.__objclass__, part.__name__
    if kept_by not in mro(type_of(value)):
        raise raised(TypeError, f"descriptor {name!r} for {kept_by.__name__!r} objects doesn't apply to a "
                                f"{type_of(value).__name__!r} object")
    if class_attrs.resolve(cap, type_of(value), name)[1] is not part:
        raise Break("call", f"{type(part).__name__}.__get__ of what a subclass names otherwise")
    read = type.__getattribute__ if issubclass(type_of(value), type) else object.__getattribute__
    return cap.call(Const(read), [value, Const(name)])


attrs.CONST_METHODS.update({(cls, "__get__"): _kept_in_c for cls in KEPT_IN_C})
BUILTINS[type.__call__] = metaclass_call
BUILTINS[type.__setattr__] = BUILTINS[type.__delattr__] = _type_store
BUILTINS[type.__getattribute__] = lambda cap, cls, name: class_attrs.type_read(
    cap, as_python(cls), attrs.attribute_name(name))
BUILTINS[BaseException.__new__] = object_new
OPERATIONS.instantiate = instantiate
OPERATIONS.new_of_library = new_of_library
OPERATIONS.new_module = new_module
OPERATIONS.object_method = object_method
OPERATIONS.instance_dict = instance_dict
