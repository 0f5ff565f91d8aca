"""How jaxpr equations that are not primitives of ours become ones that are: three tables.

CALLS        name → the jaxpr that the call runs, to be inlined
IDENTITIES   primitives that return their operands
REWRITES     name → `rewrite(equation)`, a JAX function of the equation's operands that computes
             its results with simpler primitives (bit for bit what eager JAX computes)

A rewrite sees random keys as uint32 arrays. What has no row becomes one `extern` Op that holds the
equation as a jaxpr, for XLA (`as_extern`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr

from dynacomp.capture.avals import is_numpy_dtype


def _closed(jaxpr: Any) -> ClosedJaxpr:
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


CALLS: dict[str, Callable[[dict[str, Any]], ClosedJaxpr]] = {
    "jit": lambda p: p["jaxpr"],
    "pjit": lambda p: p["jaxpr"],
    "closed_call": lambda p: _closed(p["call_jaxpr"]),
    "core_call": lambda p: _closed(p["call_jaxpr"]),
    "custom_jvp_call": lambda p: p["call_jaxpr"],
    "custom_vjp_call": lambda p: p["call_jaxpr"],
    "custom_vjp_call_jaxpr": lambda p: p["fun_jaxpr"],
    "checkpoint": lambda p: _closed(p["jaxpr"]),
    "remat2": lambda p: _closed(p["jaxpr"]),
    "custom_vmap_call": lambda p: p["call"],
    "composite": lambda p: p["jaxpr"],
    "custom_lin": lambda p: p["call_jaxpr"],
}

IDENTITIES = frozenset({"copy", "copy_p", "stop_gradient", "optimization_barrier", "name", "pvary",
                        "random_wrap", "random_unwrap", "random_clone", "reduced_vary_cast"})


def _impl(eqn: Any) -> Any:
    return eqn.params.get("impl") or eqn.invars[0].aval.dtype._impl


def _over_keys(eqn: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    for _ in range(eqn.invars[0].aval.ndim):
        fn = jax.vmap(fn)
    return fn


def _fold_in(eqn: Any) -> Callable[..., Any]:
    """Keys and messages of one rank, a dimension of 1 broadcast, either side a scalar."""
    out, impl = eqn.outvars[0].aval.shape, _impl(eqn)

    def run(keys: Any, data: Any) -> Any:
        keys = jnp.broadcast_to(keys, (*out, *impl.key_shape))
        fn = impl.fold_in
        for _ in out:
            fn = jax.vmap(fn)
        return fn(keys, jnp.broadcast_to(data, out))

    return run


def _integer_pow(eqn: Any) -> Callable[[Any], Any]:
    """x**y by squaring, in XLA's order of multiplications."""
    y = eqn.params["y"]

    def run(x: Any) -> Any:
        if y == 0:
            return jnp.ones_like(x)
        acc, n, base = None, abs(y), x
        while n:
            if n & 1:
                acc = base if acc is None else lax.mul(acc, base)
            n >>= 1
            base = lax.mul(base, base) if n else base
        return acc if y > 0 else lax.div(jnp.ones_like(acc), acc)

    return run


def _clamp(eqn: Any) -> Callable[..., Any]:
    shape = eqn.outvars[0].aval.shape
    fill = lambda v: v if v.shape == shape else lax.broadcast(v, shape)
    return lambda lo, x, hi: lax.min(lax.max(fill(lo), x), fill(hi))


def _split(eqn: Any) -> Callable[[Any], Any]:
    sizes, axis = eqn.params["sizes"], eqn.params["axis"]

    def run(x: Any) -> list[Any]:
        ends = list(np.cumsum(np.asarray([0, *sizes], dtype=object)))
        return [lax.slice_in_dim(x, a, b, axis=axis) for a, b in zip(ends, ends[1:])]

    return run


def _iota_2x32(eqn: Any) -> Callable[[], Any]:
    """Counters of fewer than 2**32 elements need no high word."""
    shape = eqn.params["shape"]
    size = functools.reduce(lambda a, b: a * b, shape, 1)
    return lambda: (jnp.zeros(shape, np.uint32), lax.reshape(lax.iota(np.uint32, size), shape))


REWRITES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "random_seed": lambda e: _over_keys(e, _impl(e).seed),
    "random_split": lambda e: _over_keys(e, lambda k: _impl(e).split(k, e.params["shape"])),
    "random_bits": lambda e: _over_keys(
        e, lambda k: _impl(e).random_bits(k, e.params["bit_width"], e.params["shape"])),
    "random_fold_in": _fold_in,
    "integer_pow": _integer_pow,
    "square": lambda e: lambda x: lax.mul(x, x),
    "clamp": _clamp,
    "split": _split,
    "squeeze": lambda e: lambda x: lax.reshape(x, e.outvars[0].aval.shape),
    "expand_dims": lambda e: lambda x: lax.reshape(x, e.outvars[0].aval.shape),
    "add_any": lambda e: lax.add,
    "iota_2x32_shape": _iota_2x32,
}


def key_rewrite(eqn: Any) -> Callable[..., Any]:
    """An equation that moves random keys, on their words: the same move for each word (a `vmap`
    over the trailing dimensions)."""
    is_key = [not is_numpy_dtype(v.aval.dtype) for v in eqn.invars]
    ranks = {len(v.aval.dtype._impl.key_shape) for v in (*eqn.invars, *eqn.outvars)
             if not is_numpy_dtype(v.aval.dtype)}
    fn = functools.partial(eqn.primitive.bind, **eqn.params)
    for _ in range(ranks.pop()):
        fn = jax.vmap(fn, in_axes=[-1 if k else None for k in is_key], out_axes=-1)
    return fn


def as_extern(eqn: Any) -> dict[str, Any]:
    """The parameters of an `extern` node: the equation as a jaxpr, why, and its effects."""
    structs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in eqn.invars]

    def run(*args: Any) -> Any:
        return eqn.primitive.bind(*args, **eqn.params)

    return {"jaxpr": jax.make_jaxpr(run)(*structs), "why": f"`{eqn.primitive.name}` has no lowering",
            "effects": tuple(sorted(str(e) for e in eqn.effects))}
