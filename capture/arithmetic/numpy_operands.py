"""An operator of NumPy's array or number and an object of the program's on its right: who computes it.

    np.ones(3) * Metres(2.0)     # NumPy: a number of a subclass has a dtype of its own, unlike a plain one
    np.float32(2.0) * vector     # the object's `__rmul__`, given a plain float: NumPy goes through its elements
    np.ones(3) * parameter       # the object's, where its `__array_priority__` is above the array's

NumPy leaves an operator to an object whose `__array_ufunc__` is None, or that has none and a higher priority
(NumPy, common/binop_override.h); of others it makes an array of objects.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dynacomp.capture.arithmetic import ufunc_overrides
from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, holds, is_const
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.builtin_subclasses import is_number
from dynacomp.capture.wrapping.class_attrs import MISSING, resolve
from dynacomp.capture.wrapping.folding import fold
from dynacomp.capture.wrapping.ndarrays import is_numpy

UFUNCS = {getattr(operator, name): ufunc for name, ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}.items()}
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
ARRAYS, NUMBERS = 0.0, -1000000.0  # their priorities: NPY_PRIORITY and NPY_SCALAR_PRIORITY
SEQUENCES = ("__array__", "__array_interface__", "__array_struct__", "__len__", "__getitem__", "__iter__")


def asked(cap: Capture, op: Any, a: Value, b: Value) -> tuple[Value | None, Value]:
    """What an `__array_ufunc__` of `b` says; else None, and the left operand as the methods of `b` get it. Break where
    NumPy makes an array of objects."""
    if resolve(cap, type_of(b), "__array_ufunc__")[1] not in (MISSING, None):
        if op in COMPARISONS and is_numpy_number(a):  # which NumPy hands over as an array
            raise Break("leaves", f"NumPy's own {op.__name__} of an object")
        return ufunc_overrides.call(cap, UFUNCS[op], [a, b], {}) if op in UFUNCS else None, a
    left = a if _is_left_to(cap, a, b) else _as_plain(cap, a, b)
    if left is None:
        raise Break("leaves", f"NumPy's own {op.__name__} of an object")
    return None, left


def is_left(a: Value, b: Value) -> bool:
    """Whether NumPy's `a` stands beside an object: numbers of a subclass are none to NumPy."""
    return (is_numpy(a) or is_numpy_number(a)) and is_object(b) and not is_number(b)


def _is_left_to(cap: Capture, a: Value, b: Value) -> bool:
    own = resolve(cap, type_of(b), "__array_ufunc__")[1]
    if own is not MISSING:
        return own is None
    found = cap.call(Const(getattr), [b, Const("__array_priority__"), Const(None)])
    priority = as_python(found)
    return isinstance(priority, (int, float)) and priority > (ARRAYS if is_numpy(a) else NUMBERS)


def _as_plain(cap: Capture, a: Value, b: Value) -> Value | None:
    """The Python number that NumPy's is among objects, where `b` is one element; None where there are more."""
    one = is_const(a) and holds(a, np.generic) and a.value.dtype.kind in "biufc"
    if not one or any(resolve(cap, type_of(b), name)[1] is not MISSING for name in SEQUENCES):
        return None
    return Const(a.value.item())  # type: ignore[attr-defined]


def with_dtype(cap: Capture, number: Value) -> Value:
    """A number of a subclass as NumPy takes it."""
    return fold(cap, lambda n: np.asarray(n)[()], number)


def is_numpy_number(value: Value) -> bool:
    return issubclass(type_of(value), np.generic)
