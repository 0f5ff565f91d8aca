"""The jaxpr of a function of arrays: what `jax.make_jaxpr` gives, without the jitted function that it makes, names the
arguments of and asks for a trace that is known: a quarter of the time (75 us for a product, 280 there)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core, linear_util
from jax._src.interpreters.partial_eval import trace_to_jaxpr_dynamic
from jax.extend.core import ClosedJaxpr


def jaxpr_of(fn: Callable[..., list[Any]], structs: Sequence[Any]) -> ClosedJaxpr:
    """Traces `fn`, which takes arrays like these and gives a list of arrays."""
    wrapped = linear_util.wrap_init(fn, debug_info=api_util.debug_info("make_jaxpr", fn, tuple(structs), {}))
    jaxpr, _, consts = trace_to_jaxpr_dynamic(wrapped, [core.shaped_abstractify(s) for s in structs])
    return ClosedJaxpr(jaxpr, consts)
