"""Equinox's modules: what their metaclass does when one is made, and when it may be changed.

The metaclass converts the fields that say how, and calls each `__check_init__` of the class and its bases;
before that a module may set its own fields, after it is frozen. Equinox knows the modules under construction
by their `id`, which symbolic objects do not have: so its Python is not entered, and this file does on Values
what it does. Where it warns or raises, the graph breaks, and Equinox itself says so.
"""

from __future__ import annotations

import dataclasses
from types import FunctionType
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import module_name, mro
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.failures import is_made
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.constant import holds, is_const
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_container, is_graph_array, is_graph_number, is_object, own_class
from dynacomp.capture.values.value import Value, children
from dynacomp.capture.wrapping.constants import from_python

ABSTRACT = ("__abstractmethods__", "__abstractvars__", "__abstractclassvars__")


def is_module(cap: Capture, cls: type) -> bool:
    """Whether a class derives from `equinox.Module` that is the program's, or made as if it were."""
    return _derives(cls) and (not is_pure_module(module_name(cls)) or is_made(cap, cls))


def _derives(cls: type) -> bool:
    return any(module_name(b).startswith("equinox") and b.__name__ == "Module" for b in mro(cls))


def makes(cap: Capture, fn: FunctionType, cls: type) -> bool:
    """Whether a function is the `__call__` of Equinox's metaclass, which makes the modules of this class: the
    program's metaclass calls it, and what it makes is a new module in each call."""
    own = (vars(meta).get("__call__") for meta in mro(type(cls)) if module_name(meta).startswith("equinox"))
    return fn.__name__ == "__call__" and is_module(cap, cls) and fn is next(own, None)


def refuse_method(value: Value) -> None:
    """Break where a bound method is not called, but taken for what it is: of Equinox's modules it is a module too, a
    tree that is equal to others of the same leaves."""
    cls = own_class(value.obj) if isinstance(value, MethodV) else None
    if cls is not None and _derives(cls):
        raise Break("opaque", f"a bound method of a {cls.__qualname__}, as a tree")


def begin(cls: type) -> ObjectV:
    """`Module.__new__`: a module that may set its fields."""
    if any(getattr(cls, name, None) for name in ABSTRACT):
        raise Break("raises", f"{cls.__qualname__} is abstract")
    return ObjectV(cls, initialising=True)


def finish(cap: Capture, made: Any) -> Value:
    """What the metaclass does after `__init__`."""
    made.initialising = False
    for field in dataclasses.fields(made.cls):
        _finish_field(cap, made, field)
    for base in mro(made.cls):
        check = base.__dict__.get("__check_init__")
        if check is not None:
            cap.call(from_python(cap, check), [made])
    return made


def _finish_field(cap: Capture, made: ObjectV, field: dataclasses.Field) -> None:
    where = f"field {field.name!r} of a {made.cls.__qualname__}"
    try:
        held = cap.getattr(made, field.name)
    except Raised:
        raise Break("raises", f"{where} was not initialized") from None
    if not field.init and _holds(cap, held, _is_inexact):
        raise Break("effect", f"Equinox warns of numbers in {where}, which __init__ does not take")
    convert = field.metadata.get("converter")
    if convert is not None:
        held = cap.call(from_python(cap, convert), [held])
        made.attrs[field.name] = held
        made.written.add(field.name)
    if field.metadata.get("static", False) and _holds(cap, held, _is_array):
        raise Break("effect", f"Equinox warns of arrays in {where}, which is static")


def may_be_filled(cap: Capture, target: ObjectV) -> bool:
    """Whether an existing object is a module that Equinox is making now, as in `__init__` behind a graph break. What is
    stored into it then goes through Equinox's `__setattr__` again, which raises if this is so no more."""
    if not target.initialising and is_module(cap, target.cls):
        target.initialising = target.real in _filled_now(target.cls)
    return target.initialising


def _filled_now(cls: type) -> Any:
    """Where Equinox keeps the modules that may set their fields now."""
    return _known_to_setattr(cls, "_currently_initialising")


def _known_to_setattr(cls: type, name: str) -> Any:
    """A global of Equinox's that the `__setattr__` of its modules reads."""
    base = next(b for b in mro(cls) if "__setattr__" in vars(b))
    return vars(base)["__setattr__"].__globals__.get(name, ())


def notes_filling(cap: Capture, fn: Any, args: list[Value]) -> bool:
    """Whether a function of Equinox's only says of a module, made in the captured code, that it may set its fields
    from now on, or that it may no more: this is noted then."""
    target = args[1] if len(args) == 2 else None
    if fn.__name__ not in ("add", "remove") or not is_object(target) or target.source or not (
            is_module(cap, target.cls) and holds(args[0], type(_filled_now(target.cls)))):
        return False
    target.initialising = fn.__name__ == "add"
    return True


def refuse_store(target: ObjectV, name: str, value: Value) -> None:
    """`Module.__setattr__`: Break where it raises."""
    fields = {f.name for f in dataclasses.fields(target.cls)} if target.initialising else ()
    if name not in fields and not (target.initialising and name in _known_to_setattr(
            target.cls, "WRAPPER_FIELD_NAMES")):
        raise Break("store", f"{target.cls.__qualname__} forbids stores ({name!r})")
    if isinstance(value, MethodV) and value.obj is target:
        raise Break("store", f"a {target.cls.__qualname__} is to hold a method of its own")


def _holds(cap: Capture, value: Value, is_such: Any) -> bool:
    """Whether a leaf of a tree of containers and modules is such a Value."""
    value = cap.realize(value)
    if is_container(value):
        return any(_holds(cap, v, is_such) for v in children(value))
    if is_object(value) and is_module(cap, value.cls):
        return any(_holds(cap, cap.getattr(value, f.name), is_such) for f in dataclasses.fields(value.cls)
                   if not f.metadata.get("static", False))
    if is_const(value):
        return any(is_such(x) for x in jax.tree.leaves(value.value))
    return is_such(value)


def _is_array(x: Any) -> bool:
    return is_graph_array(x) or isinstance(x, jax.Array)


def _is_inexact(x: Any) -> bool:
    if is_graph_array(x):
        return bool(jax.numpy.issubdtype(x.aval.dtype, np.inexact))
    if isinstance(x, (jax.Array, np.ndarray, np.generic)):
        return bool(jax.numpy.issubdtype(x.dtype, np.inexact))
    return isinstance(x, (float, complex)) or is_graph_number(x) and x.kind in (float, complex)
