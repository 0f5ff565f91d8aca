"""`jax.debug.print` and `jax.debug.callback` outside of what eager JAX compiles: Python sees weak types there.

XLA forgets weak types. What it hands to a callback is strongly typed, as in eager JAX below a `jax.jit` or in the body
of a loop; in the body of a gradient or a batch, eager JAX calls the function with the arrays themselves.

    jax.vmap(lambda x: jax.debug.print("{}", [1, x]))(xs)      # [Array(1, dtype=int32, weak_type=True), ...]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from jax._src.array import ArrayImpl
from jax._src.debugging import (
    _format_print_callback,
    _make_flat_callback,
    debug_callback_p,
    debug_effect,
    debug_print_p,
    ordered_debug_effect,
)

Called = Callable[..., Any]


def printer(fmt: str, in_tree: Any, static_args: Any, np_printoptions: Any, has_placeholders: bool,
            logging_record: Any, **_: Any) -> Called:
    """What prints the operands of an equation of `debug.print`."""
    says = partial(_format_print_callback, fmt, dict(np_printoptions), has_placeholders, logging_record)
    return _make_flat_callback(in_tree, says, static_args)


CALLED: dict[Any, Callable[..., Called]] = {debug_print_p: printer, debug_callback_p: lambda callback, **_: callback}


@dataclass(frozen=True, eq=False)
class Told:
    """A callback that gets its arguments as weak as an equation's operands are."""

    callback: Called
    weak: tuple[bool, ...]

    def __call__(self, *args: Any) -> Any:
        return self.callback(*map(weakened, args, self.weak))


def weakened(x: Any, weak: bool) -> Any:
    """`x`, weakly typed or as it is, without an operation of JAX's: it may wait for the program that calls us."""
    return ArrayImpl(x.aval.update(weak_type=True), x.sharding, x._arrays, committed=x._committed) if weak else x


def unforgetting(eqn: Any) -> Any:
    """Such an equation, if its operands are weakly typed, as one whose callback sees that; any other as it is."""
    weak = tuple(bool(getattr(v.aval, "weak_type", False)) for v in eqn.invars)
    if eqn.primitive not in CALLED or not any(weak):
        return eqn
    told = Told(CALLED[eqn.primitive](**eqn.params), weak)
    effect = ordered_debug_effect if ordered_debug_effect in eqn.effects else debug_effect
    return eqn.replace(primitive=debug_callback_p, params={
        "callback": told, "effect": effect, "partitioned": eqn.params["partitioned"]})
