"""Loops of a library call that may never end: arrays say how often they run, and nothing counts their rounds.

A check that waits for the end of the Graph (see `control_flow.raising`) has to be asked before such a loop, which might
not end for what the program would have refused. A loop whose condition is a limit of rounds *and* anything else ends
whatever the arrays are:

    while_loop(lambda s: (s.round < 100) & ~s.valid, ...)     # ends
    while_loop(lambda s: s.error > tolerance, ...)            # may not
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import subjaxprs
from jax.extend.core import Literal, primitives

MOST = 1 << 20  # rounds that are soon over


def may_not_end(jaxpr: Any) -> bool:
    """Whether this jaxpr, or one in it, has such a loop."""
    return any(e.primitive is jax.lax.while_p and not _is_counted(e) for e in jaxpr.eqns) or any(
        map(may_not_end, subjaxprs(jaxpr)))


def _is_counted(loop: Any) -> bool:
    """Whether each round adds to a number that the condition wants below a constant."""
    cond, body = loop.params["cond_jaxpr"].jaxpr, loop.params["body_jaxpr"].jaxpr
    carried = cond.invars[loop.params["cond_nconsts"]:]
    before = body.invars[loop.params["body_nconsts"]:]
    steps = {id(out): e for e in body.eqns for out in e.outvars}
    for place in _limited(cond, carried):
        step = steps.get(id(body.outvars[place]))
        if step is not None and step.primitive is primitives.add_p and step.invars[0] is before[place] and (
                _number(step.invars[1]) >= 1):
            return True
    return False


def _limited(cond: Any, carried: list[Any]) -> Iterator[int]:
    """The places of carried numbers that the condition wants below a constant, whatever else it wants."""
    made = {id(out): e for e in cond.eqns for out in e.outvars}
    todo = list(cond.outvars)
    while todo:
        eqn = made.get(id(todo.pop()))
        if eqn is None:
            continue
        if eqn.primitive in (primitives.and_p, primitives.convert_element_type_p):
            todo += eqn.invars
        elif eqn.primitive is primitives.lt_p and 0 <= _number(eqn.invars[1]) <= MOST:
            yield from (place for place, number in enumerate(carried) if number is eqn.invars[0])


def _number(operand: Any) -> int:
    """A whole number that is a constant of the jaxpr; -1 for anything else."""
    aval: Any = operand.aval
    whole = isinstance(operand, Literal) and aval.shape == () and jnp.issubdtype(aval.dtype, jnp.integer)
    return int(operand.val) if whole else -1
