"""`dynacomp.register_kernel`: several operations, found as a pattern, done by one kernel of the program's.

    fused = dynacomp.custom_op("fused", abstract=lambda x, w: x, cpp=...)
    dynacomp.register_kernel(lambda x, w: jax.nn.silu(x) * w, fused)

The pass `use_kernels` of `dynacomp.passes.default()` puts the kernel in wherever the pattern fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynacomp import misses
from dynacomp.lowering.passes.kernels import REGISTERED, KernelRule
from dynacomp.lowering.passes.patterns import Where


def register_kernel(pattern: Callable[..., Any], template: Callable[..., Any], *, where: Where | None = None,
                    example: Sequence[Any] | None = None) -> Callable[[], None]:
    """Puts `template` where `pattern` fits, in all that is compiled from now on; returns a function that takes it back.

    pattern: a plain function of arrays, as for `passes.rewriter`. template: a function of the same arrays that gives
    an array of the same shape and dtype: a `dynacomp.custom_op`, as a rule. where: called with a `passes.Match` (its
    `avals` say shapes and dtypes); the kernel is put in where it says True; without one, wherever nothing else reads a
    value from within the pattern. example: arrays of the arguments' ranks, where they are not all of one shape.
    Compiled entries are forgotten. A template that does not fit its pattern is told as a pass that was left out.

    Example:
        >>> import dynacomp, jax, jax.numpy as jnp, numpy as np
        >>> gate = dynacomp.custom_op("gate", lambda x, w: x * w / (1 + np.exp(-x)), abstract=lambda x, w: x)
        >>> take_back = dynacomp.register_kernel(lambda x, w: jax.nn.silu(x) * w, gate)
        >>> graph = dynacomp.explain(lambda x, w: jax.nn.silu(x) * w)(jnp.ones(4), jnp.ones(4)).regions[0].lowered
        >>> "gate" in str(graph)
        True
        >>> take_back()
    """
    if not callable(pattern) or not callable(template):
        raise TypeError(f"dynacomp.register_kernel: expected two functions, got {pattern!r} and {template!r}")
    rule = KernelRule(pattern, template, where, None if example is None else tuple(example))
    REGISTERED.append(rule)
    misses.reset()

    def take_back() -> None:
        if rule in REGISTERED:
            REGISTERED.remove(rule)
            misses.reset()

    return take_back
