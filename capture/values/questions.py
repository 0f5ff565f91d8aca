"""What many ask about Values, each asked at one place.

Who wants to know what to do with a Value asks its row (see `kind`); these are for those who do one thing with one kind
and leave the others alone. None looks at the object: nothing is guarded.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import holds, is_exactly
from dynacomp.capture.values.containers import DictV, ListV, SequenceV, SetV, SliceV, TupleV
from dynacomp.capture.values.iterators import GeneratorV, StreamV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import CellV, ObjectV, OpaqueV
from dynacomp.capture.values.value import Lazy, NotConstant, Value, type_of

T = TypeVar("T")


def asks(cls: type[T]) -> Callable[[Any], TypeGuard[T]]:
    """The question whether something is of `cls`, a class of Values."""
    def question(value: Any) -> TypeGuard[T]:
        return isinstance(value, cls)

    return question


is_value = asks(Value)  # no plain key of a dict, and no element that nothing has looked at
is_lazy = asks(Lazy)  # such an element
is_opaque = asks(OpaqueV)  # an existing object that is not looked into
is_made_function = asks(FunctionV)  # a function that the captured code has made
is_library_object = asks(LibraryV)  # what a library has made of arrays, and is no array
is_list = asks(ListV)  # or a deque
is_tuple = asks(TupleV)  # maybe a named one, of which the machine has the elements one by one
is_sequence = asks(SequenceV)  # a list or such a tuple
is_dict = asks(DictV)
is_set = asks(SetV)
is_slice = asks(SliceV)  # of which an end may change
is_graph_array = asks(ArrayV)  # an array in the Graph, of JAX or given as one of NumPy
is_made_array = asks(NdArrayV)  # an array that the captured code has NumPy make
is_graph_number = asks(NumberV)  # a number of Python's that the Graph computes
is_scalar = asks(ScalarV)  # a number or string that changes from call to call, and no size
is_size = asks(SizeV)  # a symbolic size
is_cell = asks(CellV)  # a variable of a function, which functions inside it have too
is_stream = asks(StreamV)  # `zip`, `map`, `enumerate` and other iterators over iterators
is_suspended = asks(GeneratorV)  # a generator or coroutine


def is_function(value: Any) -> bool:
    """Whether `value` is a function of Python's."""
    return is_made_function(value) or holds(value, types.FunctionType)


def own_class(value: Any) -> type | None:
    """The class of an instance whose attributes the machine knows; None of other Values."""
    row = kind(value).own_class
    return None if row is None else row(value)


def is_object(value: Any) -> TypeGuard[ObjectV]:
    """Whether `value` is such an instance."""
    return kind(value).own_class is not None


def is_plain_tuple(value: Any) -> TypeGuard[TupleV]:
    """Whether `value` is a tuple of no subclass."""
    return is_tuple(value) and value.cls is tuple


def is_container(value: Any) -> bool:
    """Whether `value` is a tuple, list or dict."""
    return is_sequence(value) or is_dict(value)


def is_number(value: Any) -> bool:
    """Whether `value` is a number that the Graph computes, or a constant one."""
    return is_graph_number(value) or is_exactly(value, int, bool, float)


def says_its_class(value: Any) -> bool:
    """Whether the object itself has to be asked of what class it is: a tracer may be in its place, or anything."""
    return is_graph_array(value) or is_opaque(value)


def type_name(value: Value) -> str:
    """What messages call the class of `value`."""
    try:
        return type_of(value).__name__
    except NotConstant:
        return type(value).__name__
