"""How JAX's loops and branches become the Ops of `control`: one row each.

A row says which Op, its plain parameters, and its bodies; operands keep their order.
JAX gives the two jaxprs of a `while` constants of their own; here both take all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
from jax import lax
from jax.extend.core import jaxpr_as_fun

from dynacomp.lowering.primitives.translate_rules import scan_counts


@dataclass(frozen=True)
class Body:
    """A jaxpr, the avals of all parameters that its Graph shall have, and which of them the jaxpr takes."""

    closed: Any
    parameters: tuple[Any, ...]
    used: tuple[int, ...]


@dataclass(frozen=True)
class Control:
    """An equation as an Op of `control`: `bodies` maps parameters to a Body, or to a tuple of them."""

    op: str
    bodies: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)


def whole(closed: Any) -> Body:
    """A jaxpr as a Body of its own parameters."""
    avals = tuple(v.aval for v in closed.jaxpr.invars)
    return Body(closed, avals, tuple(range(len(avals))))


def _scan(eqn: Any) -> Control:
    consts, carries = scan_counts(eqn)
    params = {"length": eqn.params["length"], "reverse": bool(eqn.params["reverse"])}
    counts = {"consts": consts, "carries": carries}
    return Control("scan", {"body": whole(eqn.params["jaxpr"])}, params | counts)


def _while(eqn: Any) -> Control:
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    if condition.out_avals[0].shape:
        return _while_any(condition, body, eqn)
    n, carries = len(eqn.invars), len(body.jaxpr.outvars)
    first = len(condition.jaxpr.invars) - carries  # the condition's constants come first, then the body's
    avals = tuple(v.aval for v in eqn.invars)
    state = range(n - carries, n)
    bodies = {"condition": Body(condition, avals, (*range(first), *state)),
              "body": Body(body, avals, (*range(first, n - carries), *state))}
    return Control("while_loop", bodies, {"consts": n - carries})


def _while_any(condition: Any, body: Any, eqn: Any) -> Control:
    """A batch of loops (vmap's) as one: it runs while any of them does, and only those go on."""
    avals = tuple(v.aval for v in eqn.invars)
    first, consts = len(condition.in_avals) - len(body.out_avals), len(avals) - len(body.out_avals)
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    running = lambda args: jaxpr_as_fun(condition)(*args[:first], *args[consts:])[0]

    def step(*args: Any) -> list[Any]:
        go, new = running(args), jaxpr_as_fun(body)(*args[first:])
        spread = [lax.broadcast_in_dim(go, x.shape, range(go.ndim)) for x in new]
        return [lax.select(g, x, y) for g, x, y in zip(spread, new, args[consts:])]

    whiles = {"condition": lambda *args: running(args).any(), "body": step}
    bodies = {k: whole(jax.make_jaxpr(fn)(*structs)) for k, fn in whiles.items()}
    return Control("while_loop", bodies, {"consts": consts})


def _cond(eqn: Any) -> Control:
    return Control("cond", {"branches": tuple(map(whole, eqn.params["branches"]))})


CONTROLS: dict[str, Callable[[Any], Control]] = {"scan": _scan, "while": _while, "cond": _cond}
"""name of JAX's primitive → the Op that it becomes."""
