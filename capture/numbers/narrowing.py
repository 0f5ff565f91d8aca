"""Python ints that JAX converts to a narrower type: eager JAX raises OverflowError for those that do not fit.

`x + k` of a uint8 array and an int: while tracing, `k` is a weakly typed int32 that is converted, and would wrap. So
what a traced call does with ints that change, symbolic sizes among them, is looked at: where one is converted, guards
hold it within what the type holds; one that does not fit now is a constant, of which eager JAX's exception is found.
NumPy's ints have types of their own, and wrap in eager JAX, too.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.graph.sizes import Size, is_symbolic
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV


def hold_narrowed(cap: Capture, closed: ClosedJaxpr, nodes: list[Node], where: str) -> None:
    """Guards the ints among the inputs, and the sizes, of a traced call where it converts them to narrower types."""
    if not (cap.numbers.scalar_nodes or cap.sizes.dims):
        return
    numbers = {node: source for source, node in cap.numbers.scalar_nodes.items()}
    known = {var: numbers[n] for var, n in zip(closed.jaxpr.invars, nodes) if n in numbers and var.aval.weak_type}
    for number, dtype in set(_narrowed(closed.jaxpr, known)):
        limits = np.iinfo(dtype)
        if is_symbolic(number):
            _hold_size(cap, number, int(limits.min), int(limits.max), where)
        else:
            _hold(cap, number, _value(cap, number), int(limits.min), int(limits.max))


def _hold(cap: Capture, source: S.Source, value: int, least: int, most: int) -> None:
    """Guards that an int lies within bounds; where it does not now, it is a constant."""
    if not least <= value <= most:
        raise NeedsConcrete(ScalarV(value, source=source))
    cap.guards.add("eq", S.Host("ge", (source, least), operator.ge), True)
    cap.guards.add("eq", S.Host("le", (source, most), operator.le), True)


def _hold_size(cap: Capture, size: Size, least: int, most: int, where: str) -> None:
    if not (size >= least and size <= most):
        size_values.freeze(cap, [size], f"{where}: a size that does not fit its type")
        raise Restart()


def _value(cap: Capture, source: S.Source) -> int:
    return next(v.hint for _, v in cap.numbers.scalar_reads if v.source == source)


def _narrowed(jaxpr: Any, known: dict[Any, Any]) -> Iterator[tuple[Any, np.dtype]]:
    """What of `known` (variables of Python's ints) is converted to an integer type that may not hold it, and the
    type; what becomes of an int is known for as long as it is weakly typed."""
    known = dict(known)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        read = [None if isinstance(v, Literal) else known.get(v) for v in eqn.invars]
        if name == "dim_as_value":
            known[eqn.outvars[0]] = eqn.params["dim"]
        elif name == "convert_element_type" and read[0] is not None:
            dtype = eqn.params["new_dtype"]
            if isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype != eqn.invars[0].aval.dtype:
                yield read[0], dtype
            if eqn.params["weak_type"]:
                known[eqn.outvars[0]] = read[0]
        elif name in ("jit", "pjit") and any(r is not None for r in read):
            inner = eqn.params["jaxpr"].jaxpr
            yield from _narrowed(inner, {v: r for v, r in zip(inner.invars, read) if r is not None})
        elif name in ("jit", "pjit"):
            yield from _narrowed(eqn.params["jaxpr"].jaxpr, {})
