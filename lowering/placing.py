"""Programs that decide where their arrays live: on several devices, or on another than the default one.

`shard_map`, sharding constraints and moves between devices speak of meshes; a program of one device cannot
express them. XLA compiles such a Graph as a whole.
"""

from __future__ import annotations

from typing import Any

import jax
from jax._src.core import subjaxprs

MESH = {"shard_map", "sharding_constraint", "reshard", "mesh_cast", "pmap", "xla_pmap"}  # primitives


class Placed(Exception):
    """The program decides where its arrays live; says by which primitive."""


def refuse_placing(jaxpr: Any) -> None:
    """Raises Placed when an equation of `jaxpr`, or of a jaxpr inside it, puts arrays elsewhere."""
    for eqn in jaxpr.eqns:
        moves = eqn.params["devices"] if eqn.primitive.name == "device_put" else ()
        if eqn.primitive.name in MESH or any(map(_elsewhere, moves)):
            raise Placed(f"`{eqn.primitive.name}` decides where arrays live")
    for inner in subjaxprs(jaxpr):
        refuse_placing(inner)


def _elsewhere(place: Any) -> bool:
    """Whether a destination of `device_put` is anything but this process's first device."""
    if place is None:
        return False
    return getattr(place, "device_set", {place}) != {jax.local_devices()[0]}
