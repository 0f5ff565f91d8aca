"""Library functions that are entered: written in Python, and unable to take a size that changes.

Most calls of a library become one node, whose shapes JAX finds with symbolic sizes. A function that computes with a
size in a way that JAX's symbolic sizes don't know (`int(np.ceil(np.log2(n)))`, a `range`, `math.log`) fails then. The
next attempt runs its bytecode as if the program had written it: there a size is a number like any other, and what the
function calls is one node each. Where that fails, too, the sizes are constants.

    jnp.interp(x, xp, fp)     # of changing length: `searchsorted` asks for the logarithm of len(xp)
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.symbolic.libraries import is_library
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.wrapping.builder import JITTED


def python_inside(fn: Any) -> types.FunctionType | None:
    """The Python function that a call of `fn` runs, perhaps inside `jax.jit`; None of what is written in C, or does
    more (`jax.custom_jvp`)."""
    while type(fn) is JITTED:
        fn = vars(fn).get("__wrapped__")
    return fn if type(fn) is types.FunctionType else None


def may_enter(cap: Capture, fn: Any) -> bool:
    """Whether this is a library function in Python that no attempt has entered."""
    inside = python_inside(fn)
    return inside is not None and is_library(inside) and inside not in cap.lessons.entered


def enter_next(cap: Capture, fn: Any, given: Iterable[Any]) -> None:
    """Restart where the next attempt is to enter this function, which could not take a size, or one of those that it
    is given: `jax.vmap(jnp.interp)`."""
    for part in (fn, *given):
        if may_enter(cap, part):
            cap.lessons.entered[python_inside(part)] = True
            raise Restart
    for inside in map(python_inside, (fn, *given)):
        if inside in cap.lessons.entered:
            cap.lessons.entered[inside] = False


def is_entered(cap: Capture, fn: Any) -> bool:
    """Whether an earlier attempt has found that calls of this library function are to be entered."""
    return bool(cap.lessons.entered) and cap.lessons.entered.get(python_inside(fn), False)
