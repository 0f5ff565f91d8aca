"""Values of types that the program defines itself (JAX's "hijax": `Box`, quantised arrays): they have no shape and no
dtype, only rules that make operations on arrays of them when JAX compiles. XLA compiles such a Graph as a whole.
"""

from __future__ import annotations

from typing import Any

from jax._src.core import subjaxprs, typeof
from jax.extend.core import ClosedJaxpr


class HighType(Exception):
    """The program computes with values that are no arrays; says of which type."""


def refuse_high_types(closed: ClosedJaxpr) -> None:
    """Raises HighType where a constant or a variable of `closed`, or of a jaxpr inside it, is of such a type."""
    _refuse(map(typeof, closed.consts))
    _refuse_in(closed.jaxpr)


def _refuse_in(jaxpr: Any) -> None:
    _refuse(v.aval for v in (*jaxpr.constvars, *jaxpr.invars, *(o for eqn in jaxpr.eqns for o in eqn.outvars)))
    for inner in subjaxprs(jaxpr):
        _refuse_in(inner)


def _refuse(types: Any) -> None:
    for found in types:
        if found.is_high:
            raise HighType(f"a value of the type {type(found).__name__} is no array")
