"""What many ask about Values, each asked at one place.

Who wants to know what to do with a Value asks its row (see `kind`); these are for those who do one thing with one kind
and leave the others alone.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from dynacomp.capture.symbolic.kind import kind
from dynacomp.capture.symbolic.values import (
    ArrayV,
    DictV,
    NumberV,
    ObjectV,
    SequenceV,
    TupleV,
    is_exactly,
)


def own_class(value: Any) -> type | None:
    """The class of an instance whose attributes the machine knows; None of other Values."""
    row = kind(value).own_class
    return None if row is None else row(value)


def is_object(value: Any) -> TypeGuard[ObjectV]:
    """Whether `value` is such an instance."""
    return kind(value).own_class is not None


def is_plain_tuple(value: Any) -> TypeGuard[TupleV]:
    """Whether `value` is a tuple, of no subclass, of which the machine has the elements one by one."""
    return isinstance(value, TupleV) and value.cls is tuple


def is_container(value: Any) -> bool:  # a tuple, list or dict
    return isinstance(value, (SequenceV, DictV))


def is_array(value: Any) -> TypeGuard[ArrayV]:
    """Whether `value` is an array in the Graph."""
    return isinstance(value, ArrayV)


def is_graph_number(value: Any) -> TypeGuard[NumberV]:
    """Whether `value` is a number of Python's that the Graph computes."""
    return isinstance(value, NumberV)


def is_number(value: Any) -> bool:
    """Whether `value` is a number that the Graph computes, or a constant one."""
    return is_graph_number(value) or is_exactly(value, int, bool, float)
