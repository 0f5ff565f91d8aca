"""Array Values: their attributes, methods, length, iteration.

What an Aval knows (shape, dtype, ndim) is a constant; what computes is a node; what would carry the
array's content into Python (`item`, `tolist`, `float`, `bool`, ...) breaks the graph.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import jax
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars, later
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bodies.placement import JITTED, is_jitted, is_traced, may_be_sharded, placement
from dynacomp.capture.bodies.subgraphs import localise
from dynacomp.capture.graph.avals import ARRAY_TYPE, KEY_TYPE
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing import settled
from dynacomp.capture.tracing.failures import calls_out
from dynacomp.capture.tracing.trace_call import emit_node, library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.computed import ArrayV, NdArrayV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import is_graph_array, is_size
from dynacomp.capture.values.standing import ClassOfTracedV
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.class_attrs import MISSING, lookup


class Method:
    """`array.name(...)` as a function, the target of a node."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name
        self.__qualname__, self.__module__ = f"Array.{name}", "jax"

    @calls_out
    def __call__(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, self.name)(*args, **kwargs)


method = functools.cache(Method)

LEAVING = {"item", "tolist", "tobytes", "unsafe_buffer_pointer", "addressable_data", "__array__", "__float__",
           "__int__", "__bool__", "__complex__", "__index__", "copy_to_host_async", "delete", "is_ready",
           "on_device_size_in_bytes", "__dlpack__", "global_shards", "addressable_shards"}
PLACEMENT = {"sharding", "device", "committed", "is_fully_addressable", "is_fully_replicated", "_committed"}


def dims(cap: Capture, value: ArrayV) -> list[Value]:
    shape = value.aval.shape
    if all(isinstance(d, int) for d in shape):
        return [Const(d) for d in shape]
    return [size_values.of_expr(cap, d) for d in shape]


def attribute(cap: Capture, value: ArrayV, name: str) -> Value:
    owner = type_of(value)
    known = _KNOWN.get(owner, _KNOWN_OF_JAX).get(name)
    if known is not None:
        return known(cap, value)
    given = value.real is not None and not ndarrays.is_numpy(value)
    if name in PLACEMENT and given and not is_jitted(cap, value.node):
        return Const(getattr(value.real, name))
    kind = of_class(owner, name)
    if kind is MISSING and value.attrs and name in value.attrs:
        return value.attrs[name]
    if name == "__dict__" and kind is not MISSING:
        raise Break("attribute", "the dictionary of an array")
    if cap.effects.arrays and kind is MISSING:
        found = _stored(cap, value, name)
        if found is not None:
            return found
    if kind is MISSING and type(value.real) is ARRAY_TYPE and value.source is not None:  # it may have its own
        held = vars(value.real)
        if name in held:
            return wrap(cap, held[name], S.Attr(value.source, name))
        cap.guards.add("missing", value.source, name)
    if kind is MISSING:
        full = "PRNGKeyArray" if owner is KEY_TYPE else f"{owner.__module__}.{owner.__qualname__}"
        raise Raised(Const(AttributeError(f"{full!r} object has no attribute {name!r}", name=name)))
    if ndarrays.is_numpy(value):
        return numpy_attribute(cap, value, name)
    if name in PLACEMENT:
        return placement(cap, value, name)
    if callable(kind):
        return BuiltinMethodV(value, name)
    if not hasattr(type(kind), "__get__"):  # the class's own: that of JAX's tracers may be another
        return Const(kind)
    return library_call(cap, getattr, [value, Const(name)], name=name)


def _stored(cap: Capture, value: ArrayV, name: str) -> Value | None:
    """What the captured code has stored in an array that exists; guarded, where it may be another one's."""
    for array, held in cap.effects.arrays.values():
        if name not in held or value.real is None:
            continue
        if array is not value:
            cap.guards.add("same" if array.real is value.real else "distinct", value.source, array.source)
        if array.real is value.real:
            return held[name]
    return None


def of_class(cls: type, name: str) -> Any:
    """What instances find in their class, as it stands there; MISSING where it has no such name. (`getattr` would
    find what only the class itself has, too: its `__name__`, `mro`.)"""
    return lookup(cls, name)[1]


def class_of_array(cap: Capture, value: Value) -> Value:
    """`type(array)`, and its `__class__`."""
    if is_graph_array(value) and value.real is None and cap.under_trace:
        return ClassOfTracedV(value)
    return Const(JITTED if is_graph_array(value) and is_jitted(cap, value.node) else type_of(value))


def numpy_attribute(cap: Capture, value: Value, name: str) -> Value:
    """`array.name` of a NumPy array: a constant where its content is known, a method, or a break."""
    if name == "__class__":
        return class_of_array(cap, value)
    kind = of_class(np.ndarray, name)
    if kind is None:  # such as its `__hash__`
        return Const(None)
    if kind is MISSING:
        raise Raised(Const(AttributeError(f"'numpy.ndarray' object has no attribute {name!r}", name=name)))
    found = None if callable(kind) or not ndarrays.takes(cap, value) else ndarrays.attribute(cap, value, name)
    if found is None and not callable(kind):
        raise Break("leaves", f"attribute {name!r} of a NumPy array")
    return found or BuiltinMethodV(value, name)


def _size(cap: Capture, value: ArrayV) -> Value:
    if all(isinstance(d, int) for d in value.aval.shape):
        return Const(math.prod(value.aval.shape))
    expr: Any = math.prod(value.aval.shape)
    return size_values.of_expr(cap, expr)


_KNOWN_OF_ALL: dict[str, Any] = {
    "shape": lambda cap, v: TupleV(dims(cap, v)),
    "ndim": lambda cap, v: Const(len(v.aval.shape)),
    "size": _size,
    "__class__": class_of_array,
}
_KNOWN_OF_KEYS: dict[str, Any] = _KNOWN_OF_ALL | {
    "dtype": lambda cap, v: Const(v.aval.dtype),
    "aval": lambda cap, v: _aval(cap, v),
    "itemsize": lambda cap, v: Const(v.aval.dtype.itemsize),
}
_KNOWN_OF_JAX: dict[str, Any] = _KNOWN_OF_KEYS | {"weak_type": lambda cap, v: Const(v.aval.weak_type)}
_KNOWN: dict[type, dict[str, Any]] = {
    KEY_TYPE: _KNOWN_OF_KEYS,
    np.ndarray: _KNOWN_OF_ALL | {  # JAX may narrow what NumPy holds
        "dtype": lambda cap, v: Const(v.real.dtype),
        "itemsize": lambda cap, v: Const(v.real.itemsize),
    },
}


def _aval(cap: Capture, value: ArrayV) -> Value:
    """`array.aval`. Its sharding is JAX's to find out, where arrays may lie on a mesh; and one with a size that changes
    is made at run time, since its texts, its hash and whom it equals are those of the size."""
    if not may_be_sharded(cap) and all(isinstance(d, int) for d in value.aval.shape):
        return Const(jax.core.ShapedArray(value.aval.shape, value.aval.dtype, weak_type=value.aval.weak_type))
    return library_call(cap, getattr, [value, Const("aval")], name="aval")


def call_method(cap: Capture, value: ArrayV, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if ndarrays.is_numpy(value):
        return ndarrays.call_method(cap, value, name, args, kwargs)
    found = _number(cap, value, name) if name in NUMBERS and not (args or kwargs) else None
    if found is None and name == "tolist" and not (args or kwargs):
        found = settled.listed(cap, value)
    if found is not None:
        return found
    if name in LEAVING:
        return later.call_method(cap, value, name, args, kwargs)
    if name == "block_until_ready":
        if is_traced(cap, value.node):
            raise Break("concrete", "block_until_ready() of a value that JAX traces")
        return value
    if name == "squeeze" and not (args or kwargs):
        args = squeezed(cap, value)
    if name == "__len__":
        return length(cap, value)
    if name == "__iter__":
        raise Break("leaves", "iter() of an array")
    return library_call(cap, method(name), [value, *args], kwargs, name=name)


def squeezed(cap: Capture, value: ArrayV) -> list[Value]:
    """The axes of size 1, as the argument of `squeeze`: JAX asks for them where sizes are symbolic."""
    if all(isinstance(d, int) for d in value.aval.shape):
        return []
    ones: Any = [size_values.compare(cap, operator.eq, d, Const(1)) for d in dims(cap, value)]
    return [TupleV([Const(i) for i, one in enumerate(ones) if one.value])]


NUMBERS: dict[str, Any] = {"item": None, "tolist": None, "__bool__": bool, "__int__": int, "__float__": float}


def _number(cap: Capture, value: ArrayV, name: str) -> Value | None:
    """`x.item()` and its kin: a Python number that the Graph computes, where it can."""
    kind = NUMBERS[name] or graph_scalars.kind_of(value.aval)
    if kind is None or ndarrays.is_numpy(value):
        return None
    if name == "item" and value.aval.shape != () and all(d == 1 for d in value.aval.shape):
        value = library_call(cap, jax.numpy.reshape, [value, TupleV([])])  # type: ignore[assignment]
    return graph_scalars.from_array(cap, value, kind, by_tracers=name not in ("tolist", "__float__"))


def length(cap: Capture, value: ArrayV) -> Value:
    if not value.aval.shape:
        raise Raised(Const(TypeError("len() of unsized object")))
    return dims(cap, value)[0]


def rows(cap: Capture, value: ArrayV) -> Value | None:
    """How many rows a loop over an array goes through one by one, as it may become a node; None where they are few,
    and taken from it at once."""
    if ndarrays.is_numpy(value) or not value.aval.shape:
        return None
    first: Any = dims(cap, value)[0]
    many = cap.lessons.rolled or is_size(first) or first.value > MAX_UNPACKED
    return first if many else None


def known_rows(cap: Capture, value: ArrayV) -> int:
    """How many rows a loop over an array of NumPy's goes through one by one, each a view of it: this many from now on,
    until calls have had many lengths."""
    n = size_values.known(cap, dims(cap, value)[0], "iteration over a NumPy array").value
    if n > MAX_UNPACKED:
        raise Break("iterator", f"iteration over an array of {n} parts")
    return n  # type: ignore[no-any-return]


def unpack(cap: Capture, value: ArrayV) -> list[Value]:
    """Iteration over the leading axis, as `iter(array)` gives it."""
    if ndarrays.is_numpy(value):
        raise Break("leaves", "iteration over a NumPy array")
    if not value.aval.shape:
        raise Raised(Const(TypeError("iteration over a 0-d array")))
    first = dims(cap, value)[0]
    n = size_values.known(cap, first).value
    if n > MAX_UNPACKED:
        raise Break("iterator", f"iteration over an array of {n} parts")
    if not n:
        return []
    parts = [library_call(cap, operator.getitem, [value, Const(0)])]
    aval: Any = parts[0].aval  # type: ignore[attr-defined]
    for i in range(1, n):  # which JAX need not trace: they are like the first
        parts.append(ArrayV(emit_node(cap, operator.getitem, ((localise(cap, value.node), i), {}), aval), aval))
    return parts


MAX_UNPACKED = 256  # parts of an array that are nodes of the Graph; those of a longer one are Python's


define(ArrayV, Kind(method=call_method))
define(NdArrayV, Kind(method=ndarrays.call_method))
