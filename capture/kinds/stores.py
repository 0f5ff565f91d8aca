"""`setattr` and `delattr` on Values, by Python's own rules: descriptors first, then the instance's own entry."""

from __future__ import annotations

import types
from typing import cast

import jax

from dynacomp.capture.base.classes import has_dict, own_dict
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bodies.placement import is_traced
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import mutating, removing, write_global
from dynacomp.capture.tracing.equinox_modules import is_module, may_be_filled, refuse_store
from dynacomp.capture.values.callables import FunctionV, PartialV
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, holds, is_exactly, peek
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV
from dynacomp.capture.values.standing import PrivateV
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import class_attrs
from dynacomp.capture.wrapping.class_attrs import MISSING, is_hook, resolve
from dynacomp.capture.wrapping.class_prototypes import Placeholder
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.object_attrs import (
    bind,
    hook,
    instance_attribute,
    is_data_descriptor,
    is_librarys,
    no_attribute,
    refused,
)

# What a function keeps apart from its `__dict__`; the second ones say how it runs.
SPECIAL = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__")
FIXED_PARTS = ("__defaults__", "__kwdefaults__", "__code__", "__closure__", "__globals__", "__dict__")


def setattr_value(cap: Capture, target: Value, name: str, value: Value) -> None:
    """`setattr(target, name, value)`."""
    store = kind(target).setattr
    if store is None:
        raise Break("store", f"a store to {name!r}")
    store(cap, target, name, value)


def _refused(cap: Capture, target: Value, name: str, value: Value) -> None:
    raise Break("store", f"a store to {name!r} of a {type_of(target).__name__}")


def _set_in_function(cap: Capture, target: FunctionV, name: str, value: Value) -> None:
    if target.source is not None:
        raise Break("store", f"a store to {name!r}")
    mutating(cap, target)
    if name in FIXED_PARTS:
        raise Break("store", f"a store to {name!r} of a function")
    (target.special if name in SPECIAL else target.attrs)[name] = value


def _set_in_partial(cap: Capture, target: PartialV, name: str, value: Value) -> None:
    if target.source is not None:
        raise Break("store", f"a store to {name!r}")
    mutating(cap, target)
    target.attrs[name] = value


def _set_in_cell(cap: Capture, target: CellV, name: str, value: Value) -> None:
    if name != "cell_contents":
        raise Break("store", f"a store to {name!r}")
    mutating(cap, target)
    target.content = value


def _set_in_const(cap: Capture, target: Const, name: str, value: Value) -> None:
    """An attribute of a class, or of a module."""
    if holds(target, type):
        class_attrs.store(cap, target.value, name, value)
    elif is_exactly(target, types.ModuleType):
        write_global(cap, vars(target.value), None, name, value)
    elif is_exactly(target, types.FunctionType):
        table = _noted_on(cap, target, name)
        mutating(cap, table)
        table.items[name] = value
    else:
        _refused(cap, target, name, value)


def _noted_on(cap: Capture, target: Const, name: str) -> DictV:
    """The `__dict__` of a function that exists: what a program notes on it (`wrapper.calls += 1`) stands there."""
    fn = peek(target)
    if name.startswith("__") or is_pure_module(fn.__globals__.get("__name__")):  # it, or its library, reads that in C
        raise Break("store", f"a store to {name!r} of a function")
    return cast(DictV, OPERATIONS.getattr(cap, target, "__dict__"))


def _set_in_array(cap: Capture, target: ArrayV, name: str, value: Value) -> None:
    if not hasattr(jax.core.Tracer, name) and is_traced(cap, target.node):
        raise Raised(Const(AttributeError(f"'Tracer' object has no attribute {name!r}", name=name)))
    if _is_replayed(cap, target, name):
        for array, _ in cap.effects.arrays.values():
            if array is not target:
                cap.guards.add("same" if array.real is target.real else "distinct", target.source, array.source)
        cap.effects.arrays.setdefault(id(target.real), (target, {}))[1][name] = value
    elif _takes_notes(cap, target, name):
        target.attrs = {**(target.attrs or {}), name: value}
    else:
        _refused(cap, target, name, value)


def _is_replayed(cap: Capture, target: ArrayV, name: str) -> bool:
    """Whether an attribute of an array that exists can be stored after the Graph."""
    exists = type(target.real) is ARRAY_TYPE and target.source is not None
    return exists and cap.may_break and not hasattr(ARRAY_TYPE, name)


def _takes_notes(cap: Capture, target: ArrayV, name: str) -> bool:
    """Whether an attribute can be kept with an array of the Graph until nobody needs it: see `side_effects.leaving`."""
    computed = target.real is None and target.source is None and target.node not in cap.graph.inputs
    return computed and not cap.bodies and type_of(target) is ARRAY_TYPE and not hasattr(ARRAY_TYPE, name)


def _set_object(cap: Capture, target: ObjectV, name: str, value: Value) -> None:
    owner, raw = resolve(cap, target.cls, "__setattr__")
    if is_hook(raw):
        if is_librarys(raw) and target.real is not None and not may_be_filled(cap, target):
            raise Break("store", f"{target.cls.__qualname__} forbids or intercepts stores ({name!r})")
        if not (is_librarys(raw) and is_module(cap, target.cls)):
            cap.call(bind(cap, raw, target, owner, "__setattr__"), [Const(name), value])
            return
        refuse_store(target, name, value)
    object_setattr(cap, target, name, value)


def object_setattr(cap: Capture, target: ObjectV, name: str, value: Value) -> None:
    """`object.__setattr__`: data descriptors first, then the instance's own entry."""
    _, raw = resolve(cap, target.cls, name)
    if isinstance(raw, property):
        if raw.fset is None:
            raise refused(target.cls, lambda probe: raw.__set__(probe, None))
        cap.call(from_python(cap, raw.fset), [target, value])
        return
    if issubclass(target.cls, BaseException) and (
            isinstance(raw, types.GetSetDescriptorType) or raw is BaseException.__dict__["__suppress_context__"]):
        OPERATIONS.exception_store(cap, target, name, value)
        return
    if name == "__dict__" and isinstance(raw, types.MemberDescriptorType):
        raise Break("store", f"the __dict__ of a {target.cls.__qualname__}")
    if raw is not MISSING and is_data_descriptor(raw) and not isinstance(raw, types.MemberDescriptorType):
        if isinstance(raw, Placeholder):
            cap.call(_hook_of(cap, raw, "__set__"), [target, value])
            return
        _, setter = resolve(cap, type(raw), "__set__")
        if not isinstance(setter, types.FunctionType):
            raise Break("store", f"descriptor {type(raw).__qualname__} in {name!r}")
        cap.call(Const(setter), [from_python(cap, raw), target, value])
        return
    if not isinstance(raw, types.MemberDescriptorType) and not has_dict(target.cls):
        raise refused(target.cls, lambda probe: object.__setattr__(probe, name, None))
    mutating(cap, target)
    if target.attrs.get(name) is DELETED:
        del target.attrs[name]
        target.moved.update({name} & own_dict(target.real).keys())
    target.attrs[name] = value
    target.written.add(name)


def delattr_value(cap: Capture, target: Value, name: str) -> None:
    """`delattr(target, name)`."""
    delete = kind(target).delattr
    if delete is None:
        raise Break("store", f"deletion of {name!r}")
    delete(cap, target, name)


def _delete_in_const(cap: Capture, target: Const, name: str) -> None:
    if holds(target, type):
        class_attrs.delete(cap, target.value, name)
    elif is_exactly(target, types.FunctionType):
        table = _noted_on(cap, target, name)
        if name not in table.items:
            raise no_attribute("function", name)
        removing(cap, table)
        del table.items[name]
    else:
        raise Break("store", f"deletion of {name!r}")


def _no_deletion(cap: Capture, target: PrivateV, name: str) -> None:
    raise Break("store", f"deletion of {name!r}")


def _delete_in_cell(cap: Capture, target: CellV, name: str) -> None:
    if name != "cell_contents":
        raise Break("store", f"deletion of {name!r}")
    mutating(cap, target)
    target.content = None


def _delete_in_object(cap: Capture, target: ObjectV, name: str) -> None:
    taken_over = hook(cap, target, "__delattr__")
    if taken_over is not None:
        cap.call(taken_over, [Const(name)])
    else:
        object_delattr(cap, target, name)


def object_delattr(cap: Capture, target: ObjectV, name: str) -> None:
    """`object.__delattr__`."""
    _, raw = resolve(cap, target.cls, name)
    if isinstance(raw, property):
        if raw.fdel is None:
            raise refused(target.cls, raw.__delete__)
        cap.call(from_python(cap, raw.fdel), [target])
        return
    if isinstance(raw, Placeholder) and is_data_descriptor(raw):
        cap.call(_hook_of(cap, raw, "__delete__"), [target])
        return
    deleter = resolve(cap, type(raw), "__delete__")[1] if raw is not MISSING else MISSING
    if isinstance(deleter, types.FunctionType):
        cap.call(Const(deleter), [from_python(cap, raw), target])
        return
    if isinstance(raw, class_attrs.SIMPLE) and not _is_slot(raw):
        raise Break("store", f"deletion of {name!r}, which {target.cls.__qualname__} keeps in C")
    if instance_attribute(cap, target, name) is None:
        raise refused(target.cls, lambda probe: object.__delattr__(probe, name))
    mutating(cap, target)
    if target.view is not None:
        del target.attrs[name]
    else:
        target.attrs[name] = DELETED
    target.written.add(name)


def _hook_of(cap: Capture, raw: Placeholder, name: str) -> Value:
    """A method of a descriptor in a class that the captured code makes."""
    found = cap.special(cap.known.objects[id(raw)], name)
    if found is None:
        raise Break("raises", f"a descriptor without {name}")
    return found


def _is_slot(raw: types.MemberDescriptorType | types.GetSetDescriptorType) -> bool:
    """Whether a descriptor is one of a class's `__slots__`."""
    return isinstance(raw, types.MemberDescriptorType) and bool(raw.__objclass__.__flags__ & class_attrs.HEAP)


define(FunctionV, Kind(setattr=_set_in_function))
define(PartialV, Kind(setattr=_set_in_partial))
define(ObjectV, Kind(setattr=_set_object, delattr=_delete_in_object))
define(PrivateV, Kind(setattr=_refused, delattr=_no_deletion))
define(CellV, Kind(setattr=_set_in_cell, delattr=_delete_in_cell))
define(Const, Kind(setattr=_set_in_const, delattr=_delete_in_const))
define(ArrayV, Kind(setattr=_set_in_array))
for _cls in (TupleV, ListV, DictV, SetV):
    define(_cls, Kind(setattr=_refused))
