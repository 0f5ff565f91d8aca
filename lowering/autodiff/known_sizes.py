"""A jaxpr of unknown sizes, at known ones.

Regions keep sizes unknown where JAX's rules and ours do without them. Where one does not, the jaxpr itself is
evaluated once more for the sizes at hand, each size in its equations replaced.

    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> n = Scope().symbol("n", 4)
    >>> closed = jax.make_jaxpr(lambda x: jax.numpy.ones(x.shape) * x.shape[0])(jax.ShapeDtypeStruct((n,), "float32"))
    >>> at_sizes(closed, {"n": 2}).out_avals
    [ShapedArray(float32[2], weak_type=True)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax._src.core import ShapedArray, subjaxprs
from jax._src.export.shape_poly import dim_as_value_p
from jax._src.lax.lax import _convert_element_type
from jax.extend.core import ClosedJaxpr, Jaxpr

from dynacomp.capture.graph.graph import map_parts
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.sizes import Size
from dynacomp.lowering.autodiff.cut import bind, read
from dynacomp.lowering.autodiff.derive import structs

RULES = ("custom_jvp_call", "custom_vjp_call")  # they hold functions, in which sizes are out of sight
Values = Mapping[str, int]


def at_sizes(closed: ClosedJaxpr, values: Values) -> ClosedJaxpr:
    """The jaxpr with these values in the place of its symbols. It must hold no rules of the program's (`has_rules`)."""
    def run(*args: Any) -> list[Any]:
        known = dict(zip(map(id, (*closed.jaxpr.constvars, *closed.jaxpr.invars)), (*closed.consts, *args)))
        for eqn in closed.jaxpr.eqns:
            found = equation(eqn, at(dict(eqn.params), values), [read(known, v) for v in eqn.invars])
            known.update(zip(map(id, eqn.outvars), found if eqn.primitive.multiple_results else [found]))
        return [read(known, v) for v in closed.jaxpr.outvars]

    return jax.make_jaxpr(run)(*structs(avals_at(closed.in_avals, values)))


def equation(eqn: Any, params: dict[str, Any], operands: list[Any]) -> Any:
    """The results of an equation with these parameters."""
    if eqn.primitive is dim_as_value_p:
        aval = eqn.outvars[0].aval
        return _convert_element_type(params["dim"], aval.dtype, aval.weak_type)
    return bind(eqn.replace(params=params), operands)


def at(value: Any, values: Values) -> Any:
    """A parameter of an equation."""
    if type(value) is Size:
        return evaluate(value, values)
    if isinstance(value, ClosedJaxpr):
        return at_sizes(value, values)
    if isinstance(value, Jaxpr):
        return at_sizes(ClosedJaxpr(value, ()), values).jaxpr
    if isinstance(value, ShapedArray):
        return avals_at([value], values)[0]
    return map_parts(value, lambda part: at(part, values))


def avals_at(avals: Sequence[Any], values: Values) -> list[Any]:
    """Abstract values at known sizes."""
    return [a.update(shape=tuple(evaluate(d, values) for d in a.shape)) if any(type(d) is Size for d in a.shape) else a
            for a in avals]


def has_rules(jaxpr: Any) -> bool:
    """Whether it calls functions with derivative rules of their own."""
    return any(e.primitive.name in RULES for e in jaxpr.eqns) or any(map(has_rules, subjaxprs(jaxpr)))
