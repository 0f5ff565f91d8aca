"""Which equations of a jaxpr its results depend on.

JAX's tracing keeps what nobody uses: tangents of integers (`float0`, of which no program can compute anything),
branches of a derivative that were not asked for.

    >>> import jax
    >>> closed = jax.make_jaxpr(lambda x: (x + 1, x * 2)[0])(1.0)
    >>> [str(e.primitive) for e in needed(closed.jaxpr, closed.jaxpr.outvars)]
    ['add']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from jax.extend.core import Literal


def needed(jaxpr: Any, wanted: Iterable[Any], known: Collection[int] = ()) -> list[Any]:
    """The equations, in order, by which the variables `wanted` follow from those whose ids are `known` and from the
    jaxpr's inputs; those with effects are always needed."""
    missing = {id(v) for v in wanted if not isinstance(v, Literal)}.difference(known)
    found = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not missing.isdisjoint(map(id, eqn.outvars)):
            found.append(eqn)
            missing.difference_update(map(id, eqn.outvars))
            missing.update({id(v) for v in eqn.invars if not isinstance(v, Literal)}.difference(known))
    return found[::-1]
