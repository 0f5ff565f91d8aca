"""A jaxpr of unknown sizes, at known ones.

Regions keep sizes unknown where JAX's rules and ours do without them. Where one does not, the jaxpr itself is
evaluated once more for the sizes at hand, each size in its equations replaced.

The rules of `jax.custom_jvp` functions (`jax.nn.relu`, softmax) are traced when JAX asks for them. A region may hold
such functions where the rule is the same for all sizes (`asks_for_sizes`).

    >>> from dynacomp.capture.graph.size_scope import Scope
    >>> n = Scope().symbol("n", 4)
    >>> closed = jax.make_jaxpr(lambda x: jax.numpy.ones(x.shape) * x.shape[0])(jax.ShapeDtypeStruct((n,), "float32"))
    >>> at_sizes(closed, {"n": 2}).out_avals
    [ShapedArray(float32[2], weak_type=True)]
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax._src import linear_util
from jax._src.core import ShapedArray, subjaxprs
from jax._src.export.shape_poly import dim_as_value_p
from jax._src.lax.lax import _convert_element_type
from jax.extend.core import ClosedJaxpr, Jaxpr

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.graph import map_parts
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.lowering.autodiff.cut import bind, read
from dynacomp.lowering.autodiff.derive import structs

FORWARD = "custom_jvp_call"
BACKWARD = ("custom_vjp_call", "custom_lin")  # they hold functions of the program's, in which sizes are out of sight
ORDERS = 3  # derivatives of derivatives for which rules are looked at
Values = Mapping[str, int]


def at_sizes(closed: ClosedJaxpr, values: Values) -> ClosedJaxpr:
    """The jaxpr with these values in the place of its symbols. No rule in it may ask for them (`asks_for_sizes`)."""
    def run(*args: Any) -> list[Any]:
        known = dict(zip(map(id, (*closed.jaxpr.constvars, *closed.jaxpr.invars)), (*closed.consts, *args)))
        for eqn in closed.jaxpr.eqns:
            params = at(dict(eqn.params), values)
            if eqn.primitive.name == FORWARD:
                params["jvp_jaxpr_fun"] = rule_at(eqn.params["jvp_jaxpr_fun"], values)
            found = equation(eqn, params, [read(known, v) for v in eqn.invars])
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
    if is_symbolic(value):
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
    return [a.update(shape=tuple(evaluate(d, values) for d in a.shape)) if any(is_symbolic(d) for d in a.shape) else a
            for a in avals]


def rule_at(rule: Any, values: Values) -> Any:
    """The rule of a `jax.custom_jvp` function at known sizes, as JAX keeps it: which tangents are zero → (jaxpr,
    constants, which results have none)."""
    @functools.cache
    def known(*zeros: bool) -> tuple[Any, ...]:
        jaxpr, consts, none = rule.call_wrapped(*zeros)
        closed = at_sizes(ClosedJaxpr(jaxpr, consts), values)
        return closed.jaxpr, closed.consts, none

    return linear_util.wrap_init(known, debug_info=rule.debug_info)


def asks_for_sizes(jaxpr: Any, scope: Scope, orders: int = ORDERS) -> bool:
    """Whether a function in it has a derivative rule that is not the same for all sizes, or may not be."""
    return any(e.primitive.name in BACKWARD or e.primitive.name == FORWARD and is_decided(e.params, scope, orders)
               for e in jaxpr.eqns) or any(asks_for_sizes(j, scope, orders) for j in subjaxprs(jaxpr))


def is_decided(params: Any, scope: Scope, orders: int) -> bool:
    """Whether the rule of a `jax.custom_jvp` function asks for sizes, or one of a function in it."""
    if not orders:
        return False
    if params["symbolic_zeros"]:  # a rule for each choice of tangents
        return True
    inputs = len(params["call_jaxpr"].in_avals) - params["num_consts"]
    try:
        with scope.undecided():
            jaxpr, *_ = params["jvp_jaxpr_fun"].call_wrapped(*[False] * inputs)
    except ours(Exception):  # JAX says in many ways that it needs a size
        return True
    return asks_for_sizes(jaxpr, scope, orders - 1)
