"""Values of functions that the captured code makes, and of what is bound to something: methods, `super()`, partials."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import is_const, peek
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import CellV
from dynacomp.capture.values.value import Value, type_of


@dataclass(eq=False)
class FunctionV(Value):
    """A function that the captured code made (`def`, `lambda`, comprehension)."""

    code: types.CodeType
    globals: dict[str, Any]
    name: str
    qualname: str
    defaults: TupleV | None = None
    kwdefaults: DictV | None = None
    closure: tuple[CellV, ...] = ()
    special: dict[str, Any] = field(default_factory=dict)  # `__doc__` and the like, once somebody set them
    attrs: dict[str, Any] = field(default_factory=dict)
    cells: TupleV | None = None  # its `__closure__`, once somebody asks


@dataclass(eq=False)
class BoundV(Value):
    """A callable that is bound to something. real: the object itself, if it exists already."""

    real: Any = field(default=None, init=False)


@dataclass(eq=False)
class MethodV(BoundV):
    """A callable bound to `obj`; `name` is set for methods of built-in types."""

    func: Value
    obj: Value


@dataclass(eq=False)
class BuiltinMethodV(BoundV):
    """`obj.name` of a value that the machine models itself: a list's `append`, an array's `sum`."""

    obj: Value
    name: str


@dataclass(eq=False)
class SuperV(Value):
    cls: type
    obj: Value


@dataclass(eq=False)
class PartialV(BoundV):
    """`functools.partial` made by the captured code."""

    func: Value
    args: list[Value]
    kwargs: dict[str, Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    table: Any = field(default=None, init=False)  # the DictV of its `keywords`, once the program has asked for them
    noted: Any = field(default=None, init=False)  # that of its `__dict__`, likewise: it has none before


@dataclass(eq=False)
class SettingV(Value):
    """What leaves a `with` statement that sets one of JAX's settings. manager: the context manager."""

    setting: tuple[str, Any]
    manager: LibraryV


# What a descriptor in a class gives for an instance.
BOUND: dict[type, type] = {types.WrapperDescriptorType: types.MethodWrapperType,
                           types.MethodDescriptorType: types.BuiltinMethodType, types.FunctionType: types.MethodType}


def _method_type(v: MethodV) -> type:
    return BOUND.get(type(peek(v.func) if is_const(v.func) else None), types.MethodType)


def _builtin_method_type(v: BuiltinMethodV) -> type:
    bases = () if isinstance(v.obj, LibraryV) else type_of(v.obj).__mro__
    bound = next((vars(base)[v.name] for base in bases if v.name in vars(base)), None)
    return BOUND.get(type(bound), types.BuiltinMethodType)


define(FunctionV, Kind(python_type=lambda v: types.FunctionType))
define(MethodV, Kind(python_type=_method_type))
define(BuiltinMethodV, Kind(python_type=_builtin_method_type))
define(SuperV, Kind(python_type=lambda v: super))
define(PartialV, Kind(python_type=lambda v: functools.partial))
