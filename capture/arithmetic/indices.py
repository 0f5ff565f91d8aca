"""Indices: what C code makes of a Value where it wants an integer, by `__index__`."""

from __future__ import annotations

import operator
import sys
from typing import Any

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.host_functions import as_index
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.containers import SliceV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import own_class
from dynacomp.capture.values.value import NotConstant, Value, as_python, type_of
from dynacomp.capture.wrapping.builtin_subclasses import plain


def index_value(cap: Capture, x: Value) -> Value:
    """`operator.index` of an instance that has one, or of a number of NumPy's that changes; other Values are
    themselves."""
    row = kind(x).index
    return as_index(cap, x) if row is None else row(cap, x)


def _index_of_instance(cap: Capture, x: ObjectV) -> Value:
    content = plain(x)
    if content is not x and type_of(content) is int:  # an instance of a subclass of int is not asked
        return content
    method = cap.special(x, "__index__")
    if method is None:
        return x
    found = cap.call(method, [])
    kind = type_of(found)
    if not issubclass(kind, int):
        raise Raised(Const(TypeError(f"__index__ returned non-int (type {kind.__name__})")))
    if kind is not int:
        raise Break("call", f"an __index__ that gives a {kind.__name__}, of which Python warns")
    return found


def integer(cap: Capture, x: Value) -> int:
    """`operator.index(x)` as a number; Raised TypeError of what is none."""
    x = index_value(cap, x)
    cls = own_class(x)
    if cls is not None:
        raise Raised(Const(TypeError(f"{cls.__name__!r} object cannot be interpreted as an integer")))
    try:
        return operator.index(as_python(size_values.known(cap, x, "an index")))
    except NotConstant:
        raise Break("leaves", "a list or tuple indexed by an array") from None
    except TypeError as error:
        raise Raised(Const(error)) from None


def as_length(cap: Capture, given: Value) -> Value:
    """What `len()` makes of what a `__len__` gives: an int, or Python's own errors."""
    if type_of(given) is int and not is_const(given):
        return given
    found = integer(cap, given)
    if found < 0:
        raise Raised(Const(ValueError("__len__() should return >= 0")))
    if found > sys.maxsize:
        raise Raised(Const(OverflowError("cannot fit 'int' into an index-sized integer")))
    return Const(found)


def has_index(x: Value) -> bool:
    """Whether `operator.index` takes `x`."""
    try:
        return hasattr(type_of(x), "__index__")
    except NotConstant:
        return True


def slice_of(cap: Capture, key: SliceV | Const) -> slice:
    """A slice as a Python object; its ends are numbers or None."""
    if is_const(key):
        return key.value
    return slice(*(_end(cap, k) for k in (key.start, key.stop, key.step)))


def _end(cap: Capture, end: Value) -> Any:
    """A part of a slice; sequences refuse others than numbers when they use it."""
    return as_python(end) if is_const(end) else integer(cap, end)


define(ObjectV, Kind(index=_index_of_instance))
