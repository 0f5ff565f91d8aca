"""What many ask about Values, each asked at one place.

Who wants to know what to do with a Value asks its row (see `kind`); these are for those who do one thing with one kind
and leave the others alone. None looks at the object: nothing is guarded.
"""

from __future__ import annotations

import types
from typing import Any, TypeGuard

from dynacomp.capture.symbolic.kind import kind
from dynacomp.capture.symbolic.values import (
    ArrayV,
    DictV,
    FunctionV,
    Lazy,
    LibraryV,
    ListV,
    NdArrayV,
    NumberV,
    ObjectV,
    OpaqueV,
    ScalarV,
    SequenceV,
    SizeV,
    SliceV,
    TupleV,
    Value,
    holds,
    is_exactly,
)


def is_value(value: Any) -> TypeGuard[Value]:
    """Whether this is a Value: no plain key of a dict, and no element that nothing has looked at (`Lazy`)."""
    return isinstance(value, Value)


def is_lazy(value: Any) -> TypeGuard[Lazy]:
    """Whether this is an element that nothing has looked at."""
    return isinstance(value, Lazy)


def is_opaque(value: Any) -> TypeGuard[OpaqueV]:
    """Whether `value` is an existing object that is not looked into."""
    return isinstance(value, OpaqueV)


def says_its_class(value: Any) -> bool:
    """Whether the object itself has to be asked of what class it is: a tracer may be in its place, or anything."""
    return is_graph_array(value) or is_opaque(value)


# --- functions


def is_made_function(value: Any) -> TypeGuard[FunctionV]:
    """Whether `value` is a function that the captured code has made."""
    return isinstance(value, FunctionV)


def is_function(value: Any) -> bool:
    """Whether `value` is a function of Python's."""
    return is_made_function(value) or holds(value, types.FunctionType)


# --- instances


def own_class(value: Any) -> type | None:
    """The class of an instance whose attributes the machine knows; None of other Values."""
    row = kind(value).own_class
    return None if row is None else row(value)


def is_object(value: Any) -> TypeGuard[ObjectV]:
    """Whether `value` is such an instance."""
    return kind(value).own_class is not None


def is_library_object(value: Any) -> TypeGuard[LibraryV]:
    """Whether `value` is what a library has made of arrays, and is no array."""
    return isinstance(value, LibraryV)


# --- containers


def is_list(value: Any) -> TypeGuard[ListV]:
    """Whether `value` is a list or deque."""
    return isinstance(value, ListV)


def is_tuple(value: Any) -> TypeGuard[TupleV]:
    """Whether `value` is a tuple, maybe a named one, of which the machine has the elements one by one."""
    return isinstance(value, TupleV)


def is_plain_tuple(value: Any) -> TypeGuard[TupleV]:
    """Whether `value` is such a tuple, of no subclass."""
    return is_tuple(value) and value.cls is tuple


def is_sequence(value: Any) -> TypeGuard[SequenceV]:
    """Whether `value` is a list or such a tuple."""
    return isinstance(value, SequenceV)


def is_dict(value: Any) -> TypeGuard[DictV]:
    """Whether `value` is a dict."""
    return isinstance(value, DictV)


def is_slice(value: Any) -> TypeGuard[SliceV]:
    """Whether `value` is a slice of which an end may change."""
    return isinstance(value, SliceV)


def is_container(value: Any) -> bool:
    """Whether `value` is a tuple, list or dict."""
    return is_sequence(value) or is_dict(value)


# --- what is computed


def is_graph_array(value: Any) -> TypeGuard[ArrayV]:
    """Whether `value` is an array in the Graph, of JAX or given as one of NumPy."""
    return isinstance(value, ArrayV)


def is_made_array(value: Any) -> TypeGuard[NdArrayV]:
    """Whether `value` is an array that the captured code has NumPy make."""
    return isinstance(value, NdArrayV)


def is_graph_number(value: Any) -> TypeGuard[NumberV]:
    """Whether `value` is a number of Python's that the Graph computes."""
    return isinstance(value, NumberV)


def is_scalar(value: Any) -> TypeGuard[ScalarV]:
    """Whether `value` is a number or string that changes from call to call, and no size."""
    return isinstance(value, ScalarV)


def is_size(value: Any) -> TypeGuard[SizeV]:
    """Whether `value` is a symbolic size."""
    return isinstance(value, SizeV)


def is_number(value: Any) -> bool:
    """Whether `value` is a number that the Graph computes, or a constant one."""
    return is_graph_number(value) or is_exactly(value, int, bool, float)
