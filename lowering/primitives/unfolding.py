"""Primitives that we do not know, of libraries and of programs, as what their lowering computes.

Most of them are lowered to XLA by `mlir.lower_fun(fn)`: by tracing `fn`, a function of arrays. Then `fn` is
what the primitive computes on this platform, and its equations are translated in place of a call to XLA.

    mlir.register_lowering(unvmap_any_p, mlir.lower_fun(lambda x: jnp.any(x), multiple_results=False))

A rule that writes XLA's operations itself, one that is this platform's own, and effects stay with XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax._src.interpreters import mlir

MADE_BY_LOWER_FUN = mlir.lower_fun(lambda x: x).__code__


def unfolded(eqn: Any) -> Callable[..., Any] | None:
    """The function of arrays that an equation's primitive lowers by, with the equation's parameters; or None."""
    rule = _rule(eqn.primitive)
    if eqn.effects or getattr(rule, "__code__", None) is not MADE_BY_LOWER_FUN:
        return None
    cells = dict(zip(rule.__code__.co_freevars, (cell.cell_contents for cell in rule.__closure__)))
    return lambda *args: cells["fun"](*args, **eqn.params)


def _rule(primitive: Any) -> Any:
    """How JAX lowers a primitive on the platform that programs run on, as was registered; None: it does not."""
    special = mlir._platform_specific_lowerings.get(jax.default_backend(), {})
    entry = special.get(primitive) or mlir._lowerings.get(primitive)
    return getattr(entry, "rule", entry)
