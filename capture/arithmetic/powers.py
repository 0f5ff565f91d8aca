"""Powers by one int: `jnp.power(2, n)`, `x ** n`.

JAX asks whether it can look at the exponent. Where it can, the result has the type of the base, it raises for a
negative one of ints, and derivatives by floats are what a product of so many factors has; where it cannot (a tracer of
`vmap`, `jit`) both are promoted. A number that changes from call to call and an array of the Graph are ones that it can
look at, unless a transformation traces them: see `graph.known_powers`.
"""

from __future__ import annotations

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.bodies.placement import has_value
from dynacomp.capture.graph.avals import aval_of, is_numpy_dtype
from dynacomp.capture.graph.known_powers import known_power
from dynacomp.capture.numbers import scalar_ranges
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import NeedsConcrete
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_graph_array, is_graph_number, is_made_array, is_scalar
from dynacomp.capture.values.value import Value, is_changing, now

NUMBERS = (bool, int, float, complex)
FEW = 6  # bits that nearly all exponents have


def power(cap: Capture, base: Value, exponent: Value, fn: Any = operator.pow) -> Value:
    """`base ** exponent` where one of them is an array of JAX, or `jnp.power(base, exponent)`."""
    base, exponent = cap.realize(base), cap.realize(exponent)
    kind = _dtype(base)
    if kind is None or not _is_looked_at(cap, exponent):
        return library_call(cap, fn, [base, exponent])
    if jnp.issubdtype(kind, np.inexact):
        bits = _bits(cap, exponent) if jnp.issubdtype(kind, np.complexfloating) else 0
        return library_call(cap, known_power, [base, exponent, Const(bits)], name="power")
    if not is_scalar(exponent):
        cap.call(Const(refuse_negative), [exponent])
    elif not scalar_ranges.holds(cap, [("ge", exponent, 0)]):
        raise NeedsConcrete(exponent)  # it raises, and says what it was given
    return library_call(cap, known_power, [base, exponent, Const(_bits(cap, exponent))], name="power")


def refuse_negative(exponent: Any) -> None:
    """What the machine enters; Python runs the frame where it raises for an array, and says what JAX says."""
    if exponent < 0:
        raise TypeError("Integers cannot be raised to negative powers")


def _dtype(v: Value) -> Any:
    """The dtype that JAX gives a number or an array, if NumPy has one like it; None where it is neither."""
    if is_graph_array(v) or is_graph_number(v):
        return v.aval.dtype if is_numpy_dtype(v.aval.dtype) else None
    number = v.array if is_made_array(v) else now(v)
    return np.asarray(number).dtype if isinstance(number, (*NUMBERS, np.generic, np.ndarray)) else None


def _is_looked_at(cap: Capture, v: Value) -> bool:
    """Whether it is one int that may change, and that eager JAX has the value of here."""
    if is_graph_array(v):
        whole = v.aval.shape == () and jnp.issubdtype(v.aval.dtype, np.integer)
        return whole and has_value(cap, v.node)
    if is_graph_number(v):
        return v.kind in (int, bool)
    return is_changing(v) and isinstance(now(v), (int, np.integer))


def _bits(cap: Capture, v: Value) -> int:
    """How many bits of the exponent's absolute value there are to look at."""
    most = 1 << FEW
    if is_scalar(v) and abs(v.hint) < most and scalar_ranges.holds(cap, [("lt", v, most), ("gt", v, -most)]):
        return FEW
    return int(jnp.iinfo(v.aval.dtype).bits) if is_graph_array(v) else int(jnp.iinfo(aval_of(0).dtype).bits)
