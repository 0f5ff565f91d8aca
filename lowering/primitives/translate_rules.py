"""How jaxpr equations that are not primitives of ours become ones that are: three tables.

CALLS        name → the jaxpr that the call runs, to be inlined
IDENTITIES   primitives that return their operands
REWRITES     name → `rewrite(equation)`, a JAX function of the equation's operands that computes
             its results with simpler primitives, in the order of eager JAX's arithmetic

A rewrite sees random keys as uint32 arrays. What has no row becomes one `extern` Op that holds the
equation as a jaxpr, for XLA (`as_extern`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.random import core as random_core
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from dynacomp.capture.graph.avals import is_numpy_dtype, key_impl
from dynacomp.lowering.primitives.complex_rules import complex_rewrite
from dynacomp.lowering.primitives.messages import unforgetting
from dynacomp.lowering.primitives.placing import elsewhere
from dynacomp.lowering.primitives.product_rules import PRODUCTS
from dynacomp.lowering.primitives.reduce_rules import REDUCTIONS
from dynacomp.lowering.primitives.special_rules import SPECIAL

Rewrite = Callable[[Any], Callable[..., Any]]


def _always(eqn: Any) -> bool:
    return True


def _never(eqn: Any) -> bool:
    return False


def _complex(eqn: Any) -> bool:
    return eqn.outvars[0].aval.dtype.kind == "c"


def _real(eqn: Any) -> bool:
    return eqn.invars[0].aval.dtype.kind != "c"


def _one(x: Any) -> Any:
    return lax.full_like(x, 1)


def _size(shape: tuple[Any, ...]) -> float:
    """How many elements; infinity when that is unknown."""
    return math.prod(shape) if all(isinstance(d, int) for d in shape) else math.inf


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
EVALUATED = CALLS.keys() - {"jit", "pjit", "composite"}  # those whose equations eager JAX runs one by one
APART = ("checkpoint", "remat2")  # of those, the ones whose jaxprs hold what calls of compiled functions were made of

IDENTITIES = frozenset({"copy", "copy_p", "stop_gradient", "optimization_barrier", "name", "pvary",
                        "random_wrap", "random_unwrap", "random_clone", "reduced_vary_cast"})
"""They return their operands (keys being words already)."""


def _impl(eqn: Any) -> Any:
    """The generator (`PRNGImpl`) of the keys in an equation."""
    return eqn.params.get("impl") or eqn.invars[0].aval.dtype._impl


def _over_keys(eqn: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    for _ in range(eqn.invars[0].aval.ndim):
        fn = jax.vmap(fn)
    return fn


def _gamma(eqn: Any) -> Callable[..., Any]:
    """JAX's own rejection sampling, all elements at once."""
    sample: Any = functools.partial(random_core._gamma_impl, use_vmap=True, **eqn.params)
    return lambda words, a: sample(jax.random.wrap_key_data(words, impl=key_impl(eqn.invars[0].aval.dtype)), a)


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
        acc: Any = None
        n, base = abs(y), x
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
    """Counters of fewer than 2**32 elements need no high word; unknown sizes keep both."""
    shape = eqn.params["shape"]
    size = functools.reduce(lambda a, b: a * b, shape, 1)
    return lambda: (jnp.zeros(shape, np.uint32), lax.reshape(lax.iota(np.uint32, size), shape))


def _stays(eqn: Any) -> bool:
    """A `device_put` that names no device, or the only one, only says that its operand is an array."""
    return not any(map(elsewhere, eqn.params["devices"]))


def _high(eqn: Any) -> Callable[..., Any]:
    """A function that JAX keeps whole while differentiating: what it stands for."""
    return on_keys(eqn, lambda *args: eqn.primitive.to_lojax(*args, **eqn.params))


def _reshape(eqn: Any) -> Callable[[Any], Any]:
    order = eqn.params["dimensions"]
    return lambda x: lax.reshape(x if order is None else lax.transpose(x, order), eqn.params["new_sizes"])


def _wide_mul(eqn: Any) -> Callable[[Any, Any], Any]:
    dtype = eqn.params["out_dtype"]
    return lambda x, y: lax.mul(lax.convert_element_type(x, dtype), lax.convert_element_type(y, dtype))


def _log2(eqn: Any) -> Callable[[Any], Any]:
    """log(x) / log(2), as a multiplication: what XLA gets from JAX."""
    del eqn
    return lambda x: lax.mul(lax.log(x), lax.full_like(x, 1.4426950408889634))


def _polynomial(eqn: Any) -> Callable[..., Any]:
    """Horner's rule; coefficients come lowest power first."""
    del eqn
    return lambda x, *c: functools.reduce(lambda acc, k: lax.add(lax.mul(acc, x), k), c[-2::-1], c[-1])


def _stack(eqn: Any) -> Callable[..., Any]:
    axis = eqn.params["axis"]
    return lambda *xs: lax.concatenate([lax.expand_dims(x, [axis]) for x in xs], axis)


def _unstack(eqn: Any) -> Callable[[Any], Any]:
    axis = eqn.params["axis"]
    return lambda x: [lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]


def _tile(eqn: Any) -> Callable[[Any], Any]:
    """Each dimension becomes (repeat, dimension), then the pairs are merged."""
    reps = eqn.params["reps"]

    def run(x: Any) -> Any:
        pairs = tuple(d for pair in zip(reps, x.shape) for d in pair)
        out = lax.broadcast_in_dim(x, pairs, tuple(range(1, 2 * x.ndim, 2)))
        return lax.reshape(out, tuple(r * d for r, d in zip(reps, x.shape)))

    return run


def _empty(eqn: Any) -> Callable[[], Any]:
    """What a branch that has no residuals gives in their place: nobody reads it."""
    out = eqn.outvars[0].aval
    return lambda: jnp.zeros(out.shape, out.dtype)


def _scatter_sub(eqn: Any) -> Callable[..., Any]:
    p = eqn.params
    return lambda x, i, u: lax.scatter_add(
        x, i, lax.neg(u), p["dimension_numbers"], indices_are_sorted=p["indices_are_sorted"],
        unique_indices=p["unique_indices"], mode=p["mode"])


UNROLL_STEPS, UNROLL_EQUATIONS = 16, 1024
"""A `scan` of at most so many steps, and equations in all, is written out; others run as one loop."""


def _short_scan(eqn: Any) -> bool:
    length = eqn.params["length"]
    return (isinstance(length, int) and length <= UNROLL_STEPS
            and length * sum(map(_written_out, eqn.params["jaxpr"].jaxpr.eqns)) <= UNROLL_EQUATIONS)


def _written_out(eqn: Any) -> int:
    """How many equations one becomes: those of the scans inside a scan are written out as well."""
    if eqn.primitive.name != "scan" or not _short_scan(eqn):
        return 1
    return int(eqn.params["length"]) * sum(map(_written_out, eqn.params["jaxpr"].jaxpr.eqns))


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many of a scan's operands are constants and how many are carried. What is scanned over, and
    what is collected, has one dimension more outside than in the body (versions of JAX differ in
    how they name the parameters, not in this)."""
    rank = lambda v: len(v.aval.shape)
    body = eqn.params["jaxpr"].jaxpr
    carries = sum(rank(a) == rank(b) for a, b in zip(eqn.outvars, body.outvars))
    scanned = sum(rank(a) != rank(b) for a, b in zip(eqn.invars, body.invars))
    return len(eqn.invars) - scanned - carries, carries


def _total_order(compare: Callable[[Any, Any], Any]) -> Rewrite:
    """Comparison in IEEE's total order (-NaN < -inf < ... < -0 < 0 < ... < NaN), as integers: the
    bits of a negative float, but for the sign, are inverted."""

    def key(x: Any) -> Any:
        bits = jnp.finfo(x.dtype).bits
        whole = lax.bitcast_convert_type(x, np.dtype(f"int{bits}"))
        mask = lax.shift_right_arithmetic(whole, lax.full_like(whole, bits - 1))
        return lax.bitwise_xor(whole, lax.bitwise_and(mask, lax.full_like(whole, 2 ** (bits - 1) - 1)))

    def rewrite(eqn: Any) -> Callable[[Any, Any], Any]:
        floats = jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.floating)
        return (lambda x, y: compare(key(x), key(y))) if floats else compare

    return rewrite


def _scan(eqn: Any) -> Callable[..., Any]:
    """A short scan, step after step."""
    p = eqn.params
    body, length, (consts, carries) = jaxpr_as_fun(p["jaxpr"]), p["length"], scan_counts(eqn)
    order = range(length)[:: -1 if p["reverse"] else 1]
    empty = lambda: [jnp.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars[carries:]]

    def run(*args: Any) -> Any:
        fixed, carry, xs = args[:consts], list(args[consts:consts + carries]), args[consts + carries:]
        ys: list[Any] = [None] * length
        for i in order:
            out = body(*fixed, *carry, *(x[i] for x in xs))
            carry, ys[i] = list(out[:carries]), out[carries:]
        return [*carry, *([jnp.stack(y) for y in zip(*ys)] if length else empty())]

    return on_keys(eqn, run)


REWRITES: dict[str, tuple[Callable[[Any], bool], Rewrite]] = {
    "random_seed": (_always, lambda e: _over_keys(e, _impl(e).seed)),
    "random_split": (_always, lambda e: _over_keys(e, lambda k: _impl(e).split(k, e.params["shape"]))),
    "random_bits": (_always, lambda e: _over_keys(
        e, lambda k: _impl(e).random_bits(k, e.params["bit_width"], e.params["shape"]))),
    "random_fold_in": (_always, _fold_in),
    "random_gamma": (_always, _gamma),
    "integer_pow": (_always, _integer_pow),
    "square": (_always, lambda e: lambda x: lax.mul(x, x)),
    "one_minus_square": (_always, lambda e: lambda x: lax.mul(lax.add(_one(x), x), lax.sub(_one(x), x))),
    "polynomial": (_always, _polynomial),
    "log2": (lambda e: not _complex(e), _log2),
    "clamp": (_always, _clamp),
    "split": (_always, _split),
    "stack": (_always, _stack),
    "unstack": (_always, _unstack),
    "tile": (_always, _tile),
    "squeeze": (_always, lambda e: lambda x: lax.reshape(x, e.outvars[0].aval.shape)),
    "expand_dims": (_always, lambda e: lambda x: lax.reshape(x, e.outvars[0].aval.shape)),
    "reshape": (lambda e: e.params["dimensions"] is not None, _reshape),
    "add_any": (_always, lambda e: lax.add),
    "mul": (lambda e: e.params.get("out_dtype") is not None, _wide_mul),
    "iota_2x32_shape": (lambda e: _size(e.params["shape"]) < 2**32, _iota_2x32),
    "scatter_sub": (_always, _scatter_sub),
    "empty2": (lambda e: not is_key(e.outvars[0]), _empty),
    "tie": (_always, lambda e: lambda x, y: y),
    "eq_to": (_real, _total_order(lax.eq)),
    "le_to": (_real, _total_order(lax.le)),
    "lt_to": (_real, _total_order(lax.lt)),
    "call_hi_primitive": (lambda e: not e.effects, _high),
    "device_put": (_stays, lambda e: lambda *xs: list(xs)),
    "scan": (_short_scan, _scan),
    **PRODUCTS,
    **REDUCTIONS,
    **SPECIAL,
}
"""name → (does this equation get rewritten?, the rewrite)."""

KEY_MOVES = frozenset("""
    broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice expand_dims gather reshape rev
    scatter select_n slice split squeeze stack tile transpose unstack""".split())
"""Primitives that move random keys about: `move_keys` does the same moves with their words."""


def rewrite_of(eqn: Any) -> Callable[..., Any] | None:
    """The JAX function that stands for an equation, or None when it translates as it is."""
    name = eqn.primitive.name.replace("-", "_")
    if name in KEY_MOVES and any(map(is_key, (*eqn.invars, *eqn.outvars))):
        return move_keys(eqn)
    applies, rewrite = REWRITES.get(name, (_never, None))
    return rewrite(eqn) if rewrite is not None and applies(eqn) else complex_rewrite(eqn)


def mask_of(eqn: Any, made: Mapping[Any, Any], compiled: bool) -> tuple[Any, Any] | None:
    """The mask of a product `mask * x` and `x`: where it is False the product is zero, whatever x is, infinity or NaN.

    XLA makes a choice of a product with a boolean that the same module converts (its algebraic simplifier), and eager
    JAX hands it both where `jnp.multiply`, or another function that it compiles, is given booleans;
    `mask.astype(x.dtype) * x` is two modules, and a product. Equations of one call are under one name scope (see
    `translate.marked`). made: the equation of each variable; compiled: eager JAX compiles all of them together."""
    if eqn.primitive is not lax.mul_p or eqn.outvars[0].aval.dtype not in MASKED:
        return None
    for var, other in zip(eqn.invars, reversed(eqn.invars)):
        convert = None if isinstance(var, Literal) else made.get(var)
        if convert is None or convert.primitive is not lax.convert_element_type_p or (
                var.aval.shape != eqn.outvars[0].aval.shape):
            continue
        one = compiled or convert.source_info.name_stack == eqn.source_info.name_stack
        if one and convert.invars[0].aval.dtype == np.bool_:
            return convert.invars[0], other
    return None


MASKED = frozenset(map(np.dtype, ("float16", "float32", "float64", "complex64", "complex128")))


def masked(mask: jax.Array, x: jax.Array) -> jax.Array:
    """`x` where the mask holds, zero elsewhere."""
    return lax.select_n(mask, jnp.zeros(mask.shape, x.dtype), jnp.broadcast_to(x, mask.shape))


def is_key(var: Any) -> bool:
    """True for a variable that holds random keys."""
    return hasattr(var.aval, "dtype") and not is_numpy_dtype(var.aval.dtype)


def move_keys(eqn: Any) -> Callable[..., Any]:
    """The same move for each word of the keys: a `vmap` over their trailing dimensions."""
    keys = [v for v in (*eqn.invars, *eqn.outvars) if is_key(v)]
    fn = functools.partial(eqn.primitive.bind, **eqn.params)
    for _ in keys[0].aval.dtype._impl.key_shape:
        fn = jax.vmap(fn, in_axes=[-1 if is_key(v) else None for v in eqn.invars], out_axes=-1)
    return fn


def on_keys(eqn: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which takes and gives an equation's own values, on uint32 words instead of keys."""

    def run(*raw: Any) -> Any:
        args = [jax.random.wrap_key_data(x, impl=key_impl(v.aval.dtype)) if is_key(v) else x
                for x, v in zip(raw, eqn.invars)]
        out = fn(*args)
        flat = out if isinstance(out, (list, tuple)) else [out]
        return [jax.random.key_data(o) if is_key(v) else o for o, v in zip(flat, eqn.outvars)]

    return run


def raw_struct(aval: Any) -> jax.ShapeDtypeStruct:
    """A jaxpr variable's array for tracing: JAX dims kept, keys as uint32 words."""
    if is_numpy_dtype(aval.dtype):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=bool(aval.weak_type))
    return jax.ShapeDtypeStruct((*aval.shape, *aval.dtype._impl.key_shape), np.uint32)


def as_extern(eqn: Any, compiled: bool = True) -> dict[str, Any]:
    """The parameters of an `extern` node: the equation as a jaxpr on plain arrays, why, and its
    effects (empty when it may be dropped, merged and reordered). compiled: eager JAX compiles it."""
    run = eqn if compiled else unforgetting(eqn)
    bind = on_keys(eqn, lambda *args: run.primitive.bind(*args, **run.params))
    return {"jaxpr": jax.make_jaxpr(bind)(*(raw_struct(v.aval) for v in eqn.invars)),
            "why": f"`{eqn.primitive.name}` has no lowering",
            "effects": tuple(sorted(str(e) for e in eqn.effects))}
