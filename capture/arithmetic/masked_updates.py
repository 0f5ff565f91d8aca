"""Updates of an array where a mask says so, by one number: the Graph computes all elements and chooses.

    x = x.at[x < 0].set(0.0)      # where(x < 0, x.at[...].set(0.0), x)

Eager JAX looks at the mask and finds the places, however many there are; what it writes there is the same for all,
so that nothing depends on how many. JAX's own update of all elements says what dtypes, warnings and errors there are.
Where eager JAX traces, in bodies of `vmap` or `scan`, it refuses such a mask, and so it is refused here.
"""

from __future__ import annotations

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import holds, object_of
from dynacomp.capture.values.questions import is_graph_array, is_graph_number, is_library_object, is_scalar, is_size
from dynacomp.capture.values.value import Value


def update_where(name: str, x: Any, mask: Any, value: Any) -> Any:
    """`getattr(x.at[mask], name)(value)`."""
    chosen = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    if name == "multiply" and jnp.issubdtype(jnp.result_type(value), jnp.inexact):
        value = jnp.where(chosen, value, jnp.ones_like(value))  # no derivative goes through infinity elsewhere
    return jnp.where(chosen, getattr(x.at[...], name)(value), x)


UPDATES = ("set", "add", "subtract", "multiply", "min", "max")


def updated(cap: Capture, fn: LibraryV, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What `x.at[mask].set(value)` gives; None where that is another call, or JAX has to look at the mask."""
    ref = _part_of(fn, getattr, UPDATES)
    at = _part_of(ref, operator.getitem) if is_library_object(ref) else None
    array: Any = _part_of(at, getattr, ["at"]) if is_library_object(at) else None
    if not is_graph_array(array) or kwargs or len(args) != 1 or cap.bodies or cap.under_trace or cap.effects.jitted:
        return None
    mask: Any = ref.args[1]  # type: ignore[union-attr]
    is_mask = is_graph_array(mask) and mask.aval.dtype == bool and mask.aval.shape != ()
    if not is_mask or array.aval.shape[:len(mask.aval.shape)] != mask.aval.shape or not _is_number(args[0]):
        return None
    return library_call(cap, update_where, [fn.args[1], array, mask, args[0]], name=object_of(fn.args[1]))


def _part_of(obj: LibraryV, make: Any, names: Any = None) -> Value | None:
    """What `make(part, name)` was given to make the object; None where something else has made it."""
    known = obj.make is make and len(obj.args) == 2 and (names is None or object_of(obj.args[1]) in names)
    return obj.args[0] if known else None


def _is_number(value: Any) -> bool:
    return is_scalar(value) or is_size(value) or is_graph_number(value) or holds(
        value, (bool, int, float, complex, np.generic)) or is_graph_array(value) and value.aval.shape == ()
