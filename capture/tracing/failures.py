"""What a library call raises, in eager JAX's own words.

Tracing a call finds out that it fails, but words it about tracers and symbolic sizes, and a check may
come before the one that eager JAX makes first. `eager_error` therefore makes the call again, on zeros
of the same shapes and dtypes: the calls that are nodes are pure, and one that fails does little work.
Where that cannot be done (a function of the user's is among the arguments) the call is left to Python,
by a graph break.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax._src.lax.lax import _convert_element_type

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.avals import Aval, is_numpy_dtype

CAPTURE = Path(__file__).parents[1]
MISTAKES = (AssertionError, AttributeError, KeyError, NameError)


class Failed(Exception):
    """Tracing a library call raised `args[0]`, which the program may see."""


def is_defect(error: BaseException) -> bool:
    """Whether tracing failed by a mistake of ours, which no constant size would mend: one of the exceptions that
    mistakes are, raised in `capture`."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, MISTAKES) and bool(frames) and CAPTURE in Path(frames[-1].f_code.co_filename).parents


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
