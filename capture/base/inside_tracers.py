"""What tracers of derivatives have inside: the array of which JAX differentiates something, which Python may look at.

    >>> import jax, jax.numpy as jnp
    >>> jax.jvp(lambda x: x * shows(x), (2.0,), (1.0,))[0]
    Array(2., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

import jax
from jax._src.interpreters.ad import JVPTracer, LinearizeTracer


def inmost(x: Any) -> Any:
    """What such a tracer has inside; another object is itself."""
    while isinstance(x, (JVPTracer, LinearizeTracer)):
        x = x.primal
    return x


def shows(x: Any) -> bool:
    """Whether Python may look at what an array or a tracer holds."""
    return not isinstance(inmost(x), jax.core.Tracer)
