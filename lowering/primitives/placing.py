"""Programs that decide where their arrays live: on several devices, or on another than the default one.

`shard_map`, sharding constraints and moves between devices speak of meshes; a program of one device cannot
express them. XLA compiles such a Graph as a whole. A move to the only device moves nothing, but what is made of it
is `committed` to that device from then on.
"""

from __future__ import annotations

from typing import Any

import jax
from jax._src.core import jaxprs_in_params, subjaxprs
from jax.extend.core import Literal
from jax.sharding import Sharding, SingleDeviceSharding

MESH = {"shard_map", "sharding_constraint", "reshard", "mesh_cast", "pmap", "xla_pmap"}  # primitives
ONE_BY_ONE = {"custom_jvp_call", "custom_vjp_call", "checkpoint"}  # calls whose operations eager JAX runs one by one


class Placed(Exception):
    """The program decides where its arrays live; says by which primitive."""


def refuse_placing(jaxpr: Any) -> None:
    """Raises Placed when an equation of `jaxpr`, or of a jaxpr inside it, puts arrays elsewhere."""
    for eqn in jaxpr.eqns:
        moves = eqn.params["devices"] if eqn.primitive.name == "device_put" else ()
        wanted = (*eqn.params.get("in_shardings", ()), *eqn.params.get("out_shardings", ()))
        if eqn.primitive.name in MESH or any(map(elsewhere, moves)) or not all(map(_is_unspecified, wanted)):
            raise Placed(f"`{eqn.primitive.name}` decides where arrays live")
    for inner in subjaxprs(jaxpr):
        refuse_placing(inner)


def elsewhere(place: Any) -> bool:
    """Whether a destination of `device_put` is anything but the only device of this process, taken alone. (With
    others around, what the array is committed to shows.)"""
    if place is None:
        return False
    own = set(jax.local_devices())
    alone = len(own) == 1 and getattr(place, "device_set", {place}) == own
    if not alone or not isinstance(place, Sharding):
        return not alone
    usual = {None, jax.local_devices()[0].default_memory().kind}
    return not isinstance(place, SingleDeviceSharding) or place.memory_kind not in usual


def _is_unspecified(sharding: Any) -> bool:
    return type(sharding).__name__ == "UnspecifiedValue"


def committed(jaxpr: Any) -> tuple[int, ...]:
    """Which outputs are committed to the only device whatever the inputs are, since the program has put there what
    they are made of. (Under `jit`, and in bodies of loops, JAX commits nothing for that.)"""
    held: set[Any] = set()
    for eqn in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in held for v in eqn.invars):
            held.update(eqn.outvars)
        elif eqn.primitive.name == "device_put":
            held.update(v for v, place in zip(eqn.outvars, eqn.params["devices"]) if place is not None)
        elif eqn.primitive.name in ONE_BY_ONE:
            held.update(eqn.outvars[i] for i in committed(next(jaxprs_in_params(eqn.params))))
    return tuple(i for i, v in enumerate(jaxpr.outvars) if not isinstance(v, Literal) and v in held)
