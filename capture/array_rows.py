"""Functions of JAX that need more said where sizes are symbolic, as rows of the table of callees."""

from __future__ import annotations

import jax.numpy as jnp

from dynacomp.capture import arrays
from dynacomp.capture.builtin_rows import NONE, row
from dynacomp.capture.machine import Capture
from dynacomp.capture.nodes import library_call
from dynacomp.capture.values import ArrayV, Const, Value


@row(jnp.squeeze)
def _squeeze(cap: Capture, a: Value, axis: Value = NONE) -> Value:
    if isinstance(a, ArrayV) and isinstance(axis, Const) and axis.value is None:
        return library_call(cap, jnp.squeeze, [a, *arrays.squeezed(cap, a)])
    return library_call(cap, jnp.squeeze, [a, axis])
