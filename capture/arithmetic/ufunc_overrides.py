"""`np.add(a, b)` where a class of the program says what becomes of NumPy's functions of elements: `__array_ufunc__`.

`numpy.lib.mixins.NDArrayOperatorsMixin` writes all operators of a class by them: what stands for arrays with a grid or
a unit is often such a class. NumPy asks the objects among the arguments, and among what `out` names: from left to
right, those of a subclass before those of its base, one of each class, until one has an answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_object, is_tuple
from dynacomp.capture.values.value import Value, type_of

ASKED = "__array_ufunc__"


def call(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What an object among the arguments makes of a ufunc; None where none has anything to say."""
    if type(fn) is not np.ufunc or not any(map(is_object, (*args, *kwargs.values()))) and "out" not in kwargs:
        return None
    inputs, outputs = args[:fn.nin], _outputs(cap, fn, args, kwargs)
    asked = _in_order([v for v in (*inputs, *outputs) if _overrides(v)])
    if not asked:
        return None
    given = {k: v for k, v in kwargs.items() if k != "out"} | ({"out": TupleV(outputs)} if outputs else {})
    for value in asked:
        method = cap.special(value, ASKED)
        if method is None:
            raise Break("raises", f"{fn.__name__} of an object whose {ASKED} is None")
        found = cap.call(method, [Const(fn), Const("__call__"), *inputs], dict(given))
        if not stands_for(found, NotImplemented):
            return found  # type: ignore[no-any-return]
    raise Break("raises", "TypeError")


def _outputs(cap: Capture, fn: np.ufunc, args: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """What `out` names, always a tuple for who is asked; empty where it names nothing."""
    out = kwargs.get("out", Const(None))
    outputs = args[fn.nin:] or (list(cap.items(out)) if is_tuple(out) else [out])
    return [] if all(stands_for(v, None) for v in outputs) else outputs


def _overrides(value: Value) -> bool:
    """Whether an object of a class of Python's says something: arrays have a method of the name, too."""
    return is_object(value) and not issubclass(type_of(value), np.ndarray) and hasattr(type_of(value), ASKED)


def _in_order(values: list[Value]) -> list[Value]:
    """One object of each class, before the first whose class is a base of its own."""
    order: list[Value] = []
    for value in values:
        cls = type_of(value)
        if cls not in map(type_of, order):
            at = next((i for i, other in enumerate(order) if issubclass(cls, type_of(other))), len(order))
            order.insert(at, value)
    return order
