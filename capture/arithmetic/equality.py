"""Whether two objects are equal, as containers ask it of their elements: `a is b or a == b`.

    [x, 1] == [x, n]        # element by element; what decides is guarded
    range(2, n) == range(2, 7)

Arrays, numbers and instances say so themselves (`operators.binary`); what no rule is for equals only itself.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from dynacomp.capture.arithmetic.identity import same_object
from dynacomp.capture.arithmetic.numpy_operands import is_numpy_number
from dynacomp.capture.arithmetic.operators import binary, fixed, truth
from dynacomp.capture.arithmetic.pairs import Pair, Pairs
from dynacomp.capture.base.errors import Break
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.twins import told_apart
from dynacomp.capture.tracing.equinox_modules import refuse_method
from dynacomp.capture.values.callables import BuiltinMethodV, MethodV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, holds, is_const
from dynacomp.capture.values.containers import DictV, ListV, RangeV, SetV, SliceV, TupleV, ViewV, row_kind
from dynacomp.capture.values.iterators import StreamV
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_sequence, type_name
from dynacomp.capture.values.standing import IdV, TracedNameV, TraceStateV
from dynacomp.capture.values.value import Value, as_python, existing, now, type_of
from dynacomp.capture.wrapping.class_attrs import lookup


def equal(cap: Capture, a: Value, b: Value) -> bool:
    """Whether containers are equal; elements are compared by identity, then `==`, as Python does."""
    if existing(a) is existing(b) is not None:
        told_apart(cap, a)
    return a is b or EQUALITY.decide(a, b, cap)


def _equal_ids(cap: Capture, a: Value, b: Value) -> bool:
    left, right = (v if isinstance(v, IdV) else as_python(v) for v in (a, b))
    return left == right


def _equal_by_elements(cap: Capture, a: Value, b: Value) -> bool | None:
    """A number of NumPy's compares with the elements of a sequence: that gives an array."""
    if any(map(is_numpy_number, (a, b))) and any(map(is_sequence, (a, b))):
        raise Break("leaves", "NumPy's own comparison")
    return None


def _equal_sequences(cap: Capture, a: Value, b: Value) -> bool | None:
    if row_kind(a) is not row_kind(b):
        return None
    left, right = cap.items(a), cap.items(b)
    return len(left) == len(right) and all(equal(cap, x, y) for x, y in zip(left, right))


def _equal_dicts(cap: Capture, a: DictV, b: DictV) -> bool:
    return a.items.keys() == b.items.keys() and all(
        equal(cap, cap.realize(a.items[k]), cap.realize(b.items[k])) for k in a.items)


def _equal_by_operator(cap: Capture, a: Value, b: Value) -> bool:
    return truth(cap, binary(cap, operator.eq, a, b))


def _equal_floats(cap: Capture, a: Value, b: Value) -> bool | None:
    """Of floats one that is no number equals itself, where the other is the same object."""
    if not all(isinstance(now(v), float) for v in (a, b)):
        return None
    if is_const(a) and is_const(b):
        return is_or_equals(a.value, b.value)
    return truth(cap, dynamic_scalars.host("is_or_equals", is_or_equals, a, b))


def is_or_equals(a: Any, b: Any) -> bool:
    return a is b or a == b


def _same(cap: Capture, a: Value, b: Value) -> bool | None:
    return same_object(cap, a, b) or None


def _equal_methods(cap: Capture, a: MethodV, b: MethodV) -> bool:
    refuse_method(a)
    return equal(cap, a.func, b.func) and same_object(cap, a.obj, b.obj)


def _equal_built_in_methods(cap: Capture, a: BuiltinMethodV, b: BuiltinMethodV) -> bool:
    return a.name == b.name and same_object(cap, a.obj, b.obj)


def _equal_tuples(cap: Capture, a: Value, b: Value) -> bool | None:
    """A tuple of constants, and one that is not."""
    known, other = (a, b) if holds(a, tuple) else (b, a)
    if holds(known, tuple) and type(known.value).__eq__ is tuple.__eq__:
        return equal(cap, TupleV([Const(x) for x in known.value]), other)
    return None


def _equal_slices(cap: Capture, a: Value, b: Value) -> bool | None:
    """Slices compare as the tuples of their parts do."""
    first, second = (_parts(v) for v in (a, b))
    return None if first is None or second is None else equal(cap, TupleV(first), TupleV(second))


def _equal_ranges(cap: Capture, a: Value, b: Value) -> bool | None:
    """Ranges are equal where they give the same numbers: those of equal ends do, of others the ends are fixed."""
    first, second = (_parts(v, range) for v in (a, b))
    if first is None or second is None:
        return None
    return all(map(functools.partial(equal, cap), first, second)) or (
        range(*map(as_python, fixed(cap, *first))) == range(*map(as_python, fixed(cap, *second))))


def _parts(v: Value, cls: type = slice) -> list[Value] | None:
    """The start, stop and step of a slice or range; None of others."""
    if holds(v, cls):
        return [Const(part) for part in (v.value.start, v.value.stop, v.value.step)]  # type: ignore[attr-defined]
    return [v.start, v.stop, v.step] if type(v) in PARTED and type_of(v) is cls else None  # type: ignore[attr-defined]


def _equal_unknown(cap: Capture, a: Value, b: Value) -> bool | None:
    """Objects that are not looked into, which may equal others."""
    if any(isinstance(v, UNKNOWN) and _compares(type_of(v)) for v in (a, b)):
        raise Break("operator", f"== of {type_name(a)} and {type_name(b)}")
    return None


def _compares(cls: type) -> bool:
    """Whether instances may equal other objects than themselves."""
    return lookup(cls, "__eq__")[0] is not object


UNKNOWN = (OpaqueV, StreamV)
PARTED = (SliceV, RangeV)
# Who says whether two objects are equal: the first of those that are asked.
EQUALITY = Pairs(
    Pair(lambda cap, a, b: True, every=(TraceStateV,)),
    Pair(_equal_ids, some=(IdV,)),
    Pair(_equal_sequences, every=(TupleV, ListV)),
    Pair(_equal_dicts, every=(DictV,)),
    Pair(_equal_by_elements, some=(TupleV, ListV), every=(TupleV, ListV, Const, ScalarV)),
    Pair(_equal_floats, every=(Const, ScalarV)),
    Pair(_equal_by_operator, every=(Const, NumberV, SizeV, ScalarV, SetV, ViewV)),
    Pair(_equal_by_operator, some=(ArrayV, NdArrayV, ObjectV, LibraryV, TracedNameV)),
    Pair(_equal_slices, some=(SliceV,), every=(SliceV, Const)),
    Pair(_equal_ranges, some=(RangeV,), every=(RangeV, Const)),
    Pair(_equal_tuples, some=(TupleV,), every=(TupleV, Const)),
    Pair(_same),
    Pair(_equal_methods, every=(MethodV,)),
    Pair(_equal_built_in_methods, every=(BuiltinMethodV,)),
    Pair(_equal_unknown, some=UNKNOWN),
    Pair(lambda cap, a, b: False),
)
OPERATIONS.equal = equal
