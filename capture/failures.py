"""What a library call raises, in eager JAX's own words.

Tracing a call finds out that it fails, but words it about tracers and symbolic sizes, and a check may
come before the one that eager JAX makes first. `eager_error` therefore makes the call again, on zeros
of the same shapes and dtypes: the calls that are nodes are pure, and one that fails does little work.
Where that cannot be done (a function of the user's is among the arguments) the call is left to Python,
by a graph break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax._src.lax.lax import _convert_element_type

from dynacomp.capture.avals import Aval, is_numpy_dtype
from dynacomp.capture.errors import Break
from dynacomp.capture.interrupts import ours


class Failed(Exception):
    """Tracing a library call raised `args[0]`, which the program may see."""


def eager_error(call: Callable[..., Any], avals: list[Aval], error: BaseException) -> BaseException:
    """The exception of `call` on arrays such as `avals`; Break where zeros do not make it fail, or fail in another
    way: what looks at the content of arrays cannot be traced, and may find zeros wanting."""
    try:
        call(*map(zeros, avals))
    except ours(Exception) as eager:
        if type(eager) is type(error):
            return eager
    raise Break("raises", type(error).__name__)


def zeros(aval: Aval) -> Any:
    """An array of this shape, dtype and weak type."""
    return _convert_element_type(jnp.zeros(aval.shape, aval.dtype), aval.dtype, weak_type=aval.weak_type)


def can_be_called(avals: list[Aval]) -> bool:
    """Whether `zeros` of all of these exist: plain dtypes, known sizes."""
    return all(is_numpy_dtype(a.dtype) and all(isinstance(d, int) for d in a.shape) for a in avals)
