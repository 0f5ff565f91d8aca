"""Subscripts of Values: `obj[key]`, as the kind of `obj` has it.

Arrays become nodes, or NumPy is asked; constants are computed; instances of Python classes have their method entered.
Containers have rows of their own (see `kinds`).

    subscript(cap, Const((1, 2)), Const(0))     # Const(1)
    subscript(cap, x, SliceV(...))              # a node: operator.getitem, its ends within the bounds of `x`
"""

from __future__ import annotations

import operator
import types

from dynacomp.capture.arithmetic import moving_slices
from dynacomp.capture.arithmetic.indices import index_value, slice_of
from dynacomp.capture.base.classes import module_name
from dynacomp.capture.base.errors import Raised
from dynacomp.capture.numbers import host_functions, size_values, slices
from dynacomp.capture.symbolic.libraries import is_library_file, is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, ScalarV
from dynacomp.capture.values.constant import Const, holds, is_exactly
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_graph_array, is_slice
from dynacomp.capture.values.value import Value, is_changing, is_constant
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.class_attrs import name_in_errors
from dynacomp.capture.wrapping.folding import fold


def subscript(cap: Capture, obj: Value, key: Value) -> Value:
    """`obj[key]`."""
    row = kind(obj).getitem
    return _constant_item(cap, obj, key) if row is None else row(cap, obj, key)


def _scalar_item(cap: Capture, obj: Value, key: Value) -> Value:
    return host_functions.item(cap, obj, key) or _constant_item(cap, obj, key)


def _constant_item(cap: Capture, obj: Value, key: Value) -> Value:
    if is_graph_array(key):
        return _array_item(cap, obj, key)
    key = Const(slice_of(cap, key)) if is_slice(key) else size_values.known(cap, key, "an index")
    return fold(cap, operator.getitem, obj, index_value(cap, key))


def _object_item(cap: Capture, obj: ObjectV, key: Value) -> Value:
    method = cap.special(obj, "__getitem__")
    if method is None:
        raise Raised(Const(TypeError(f"{name_in_errors(obj.cls)!r} object is not subscriptable")))
    return cap.call(method, [key])


def _array_item(cap: Capture, obj: Value, key: Value) -> Value:
    if ndarrays.is_numpy(obj):
        return ndarrays.call_method(cap, obj, "__getitem__", [key], {})
    return library_call(cap, operator.getitem, [*moving_slices.cut(cap, obj, slices.bounded(cap, obj, key))])


def _const_item(cap: Capture, obj: Const, key: Value) -> Value:
    method = getattr(type(obj.value), "__getitem__", None)
    if holds(obj, type) and method is None:
        return _class_subscript(cap, obj, key)
    of_program = isinstance(method, types.FunctionType) and not is_library_file(method.__code__.co_filename)
    special = cap.special(obj, "__getitem__") if of_program and holds(obj, type) else None
    if special is not None:  # a metaclass of the program's: what it reads may have changed by the next call
        return cap.call(special, [key])
    if isinstance(method, types.FunctionType) and not is_constant(key):
        return _by_method(cap, obj, key)
    return _at_changing(cap, obj, key) or _constant_item(cap, obj, key)


def _by_method(cap: Capture, obj: Const, key: Value) -> Value:
    """Of an object of a library's that a class in Python lets be subscripted: `jnp.c_[x, y]`, `np.s_[n:]`."""
    if is_pure_module(module_name(type(obj.value))):
        return library_call(cap, operator.getitem, [obj, key])
    return cap.call(cap.getattr(obj, "__getitem__"), [key])


def _at_changing(cap: Capture, obj: Const, key: Value) -> Value | None:
    """Of a constant text, or a tuple of numbers, what stands at a place that changes."""
    ends = (key.start, key.stop, key.step) if is_slice(key) else (key,)
    if not any(map(is_changing, ends)):
        return None
    if is_exactly(obj, tuple):
        return host_functions.chosen(cap, [Const(x) for x in obj.value], key)
    return host_functions.item(cap, obj, key)


def _class_subscript(cap: Capture, obj: Const, key: Value) -> Value:
    """`list[int]`, `Box[int]`: a class' own `__class_getitem__` is entered; a built-in's, which may be a class
    (`collections.abc.Callable`'s), and that of `typing`, which keeps its answers in caches, are computed."""
    method = getattr(obj.value, "__class_getitem__", None)
    made = getattr(method, "__func__", None)
    if isinstance(made, types.FunctionType) and made.__module__ != "typing":
        return cap.call(cap.getattr(obj, "__class_getitem__"), [key])
    return fold(cap, operator.getitem, obj, key)


define(Const, Kind(getitem=_const_item))
define(ScalarV, Kind(getitem=_scalar_item))
define(ObjectV, Kind(getitem=_object_item))
for _cls in (ArrayV, NdArrayV, LibraryV):
    define(_cls, Kind(getitem=_array_item))
