"""Functions of JAX that need more said, or something else in their place, where sizes are symbolic: rows of callees."""

from __future__ import annotations

import inspect
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import arrays, powers
from dynacomp.capture.bodies.placement import is_tracer, lives_at
from dynacomp.capture.builtins.builtin_rows import NONE, row
from dynacomp.capture.graph import sized_calls, sized_parts
from dynacomp.capture.graph.avals import is_numpy_dtype
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.rows import alike_items
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.constant import Const, is_const, object_of, stands_for
from dynacomp.capture.values.questions import is_graph_array, is_size
from dynacomp.capture.values.value import Value, children, is_changing, now
from dynacomp.capture.wrapping.ndarrays import is_jax_array


@row(jnp.squeeze)
def _squeeze(cap: Capture, a: Value, axis: Value = NONE) -> Value:
    if is_graph_array(a) and stands_for(axis, None):
        return library_call(cap, jnp.squeeze, [a, *arrays.squeezed(cap, a)])
    return library_call(cap, jnp.squeeze, [a, axis])


@row(jnp.power, jnp.pow)
def _power(cap: Capture, x1: Value, x2: Value) -> Value:
    return powers.power(cap, x1, x2, jnp.power)


@row(jax.lax.integer_pow)
def _integer_power(cap: Capture, x: Value, y: Value) -> Value:
    changes = is_changing(y) and type(now(y)) is int and is_graph_array(x) and x.aval.dtype != np.bool_
    if changes:
        return powers.power(cap, x, y, jax.lax.integer_pow)
    return library_call(cap, jax.lax.integer_pow, [x, y])


@row(jax.lax.scan)
def _scan(cap: Capture, f: Value, init: Value, xs: Value = NONE, length: Value = NONE, **options: Value) -> Value:
    if is_size(length) and stands_for(xs, None) and options.keys() <= {
            "reverse", "unroll"}:
        return library_call(cap, sized_calls.scan_of_length, [f, init, length], options, name="scan")
    given = {name: v for name, v in (("xs", xs), ("length", length)) if v is not NONE}
    return library_call(cap, jax.lax.scan, [f, init], given | options)


@row(jax.lax.fori_loop)
def _fori_loop(cap: Capture, lower: Value, upper: Value, body_fun: Value, init_val: Value, **options: Value) -> Value:
    symbolic = any(map(is_changing, (lower, upper))) and all(map(size_values.is_int, (lower, upper)))
    length = size_values.arithmetic(cap, operator.sub, upper, lower) if symbolic and not options else None
    if length is not None and _is_true(size_values.compare(cap, operator.gt, length, Const(0))):
        return library_call(cap, sized_calls.fori_of_length, [lower, length, body_fun, init_val], name="fori_loop")
    return library_call(cap, jax.lax.fori_loop, [lower, upper, body_fun, init_val], options)


@row(jax.lax.associative_scan)
def _associative_scan(cap: Capture, fn: Value, elems: Value, reverse: Value = Const(False),
                      axis: Value = Const(0)) -> Value:
    call = sized_calls.associative_scan if _is_sized(cap, elems) else jax.lax.associative_scan
    return library_call(cap, call, [fn, elems, reverse, axis], name="associative_scan")


@row(jnp.arange)
def _arange(cap: Capture, start: Value, stop: Value = NONE, step: Value = NONE, dtype: Value = NONE,
            **options: Value) -> Value:
    given = [as_scalar(cap, cap.realize(v)) for v in (start, stop, step)]
    numbers = [v for v in given if not stands_for(v, None)]
    changes = any(map(is_changing, numbers)) and any(isinstance(now(v), (float, np.floating)) for v in numbers)
    if options or not changes or not all(map(dynamic_scalars.is_number, numbers)):
        return library_call(cap, jnp.arange, [start, stop, step, dtype], options)
    first, last = (given[0], given[1]) if given[1] in numbers else (Const(0), given[0])
    by = given[2] if given[2] in numbers else Const(1)
    length = size_values.as_size(cap, dynamic_scalars.host(  # type: ignore[arg-type]
        "length_of_arange", sized_calls.length_of_arange, first, last, by))
    kind = Const(jax.dtypes.result_type(*map(now, numbers))) if stands_for(dtype, None) else dtype
    return library_call(cap, sized_calls.arange, [first, step, length, kind], name="arange")


@row(sized_calls.JAX_CONST)
def _constant(cap: Capture, example: Value, val: Value) -> Value:
    return library_call(cap, sized_calls.constant if is_size(val) else sized_calls.JAX_CONST, [example, val])


@row(jnp.diag_indices)
def _diag_indices(cap: Capture, n: Value, ndim: Value = Const(2)) -> Value:
    sized = is_size(n) and bool(object_of(size_values.compare(cap, operator.gt, n, Const(0))))
    return library_call(cap, sized_calls.diag_indices if sized else jnp.diag_indices, [n, ndim], name="diag_indices")


def _slides(name: str) -> None:
    """The row of `jnp.convolve` or `jnp.correlate`, which ask a vector for its `len`."""
    whole, sized = getattr(jnp, name), getattr(sized_calls, name)

    @row(whole)
    def call(cap: Capture, a: Value, v: Value, *args: Value, **kwargs: Value) -> Value:
        fn = sized if any(_is_sized_vector(x) for x in (a, v)) and all(map(_is_vector, (a, v))) else whole
        return library_call(cap, fn, [a, v, *args], kwargs, name=name)


def _is_vector(x: Value) -> bool:
    return is_graph_array(x) and len(x.aval.shape) == 1 and x.aval.shape[0] != 0


def _is_sized_vector(x: Value) -> bool:
    return _is_vector(x) and not isinstance(x.aval.shape[0], int)  # type: ignore[attr-defined]


def _is_sized(cap: Capture, tree: Value) -> bool:
    """Whether an array in it has a symbolic size."""
    v = cap.realize(tree)
    if is_graph_array(v):
        return not all(isinstance(d, int) for d in v.aval.shape)
    return any(_is_sized(cap, part) for part in children(v))


def _is_true(value: Any) -> bool:
    return bool(object_of(value))


def _divides(fn: Any) -> None:
    """The row of a function that divides an array into parts, how many of them is a constant of the entry."""
    @row(fn)
    def call(cap: Capture, ary: Value, indices_or_sections: Value, *args: Value, **kwargs: Value) -> Value:
        count = as_scalar(cap, cap.realize(indices_or_sections))
        if is_changing(count) and type(now(count)) is int:
            size = size_values.as_size(cap, count)  # type: ignore[arg-type]
            count = size_values.known(cap, size, f"how many parts {fn.__name__} makes")
            return library_call(cap, fn, [ary, count, *args], kwargs)
        return library_call(cap, fn, [ary, indices_or_sections, *args], kwargs)


for _fn in (jnp.array_split, jnp.split, jnp.hsplit, jnp.vsplit, jnp.dsplit):
    _divides(_fn)


@row(jnp.resize)
def _resize(cap: Capture, a: Value, new_shape: Value) -> Value:
    return library_call(cap, sized_parts.resize, [a, new_shape], name="resize")


@row(jnp.searchsorted)
def _searchsorted(cap: Capture, a: Value, v: Value, side: Value = Const("left"), sorter: Value = NONE,
                  **kwargs: Value) -> Value:
    sized = _is_sized_vector(a) and object_of(side) in ("left", "right")
    fn = sized_calls.searchsorted if sized else jnp.searchsorted
    return library_call(cap, fn, [a, v, side, sorter], kwargs, name="searchsorted")


@row(jax.random.permutation)
def _permutation(cap: Capture, key: Value, x: Value, axis: Value = Const(0), independent: Value = Const(False),
                 **kwargs: Value) -> Value:
    shape = x.aval.shape if is_graph_array(x) else (size_values.expr_of(x),) if is_size(x) else ()
    at, whole = object_of(axis), object_of(independent)
    known = type(at) is int and type(whole) is bool and -len(shape) <= at < len(shape) and not kwargs and _is_key(key)
    size = size_values.of_expr(cap, math.prod(shape) if whole else shape[at]) if known and shape else x
    if not known or not is_size(size) or size.hint < 1:
        return library_call(cap, jax.random.permutation, [key, x, axis, independent], kwargs)
    rounds = sized_calls.rounds_of_permutation(size.hint)
    for limit in map(sized_calls.most_permuted, (rounds - 1, rounds)):
        size_values.compare(cap, operator.gt, size, Const(limit))  # guarded, as it is now
    return library_call(cap, sized_calls.permutation, [key, x, axis, independent, Const(rounds)], name="permutation")


def _is_key(key: Value) -> bool:
    """Whether this is a key of one of JAX's generators, new or old."""
    if not is_graph_array(key):
        return False
    new = jnp.issubdtype(key.aval.dtype, jax.dtypes.prng_key)
    return key.aval.shape == () if new else key.aval.shape == (2,) and key.aval.dtype == np.uint32


_slides("convolve")
_slides("correlate")


# --- lists that loops have filled


def _joins(fn: Any, of_rows: Any, least: int = 1) -> None:
    """The row of a function that makes one array of a list: it takes the rows as they are, if these have axes
    enough."""
    names = set(inspect.signature(of_rows).parameters)

    @row(fn)
    def call(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        nested = fn in (jnp.array, jnp.asarray)
        if nested and args and "device" in kwargs and lives_at(cap, args[0], kwargs["device"]):
            kwargs = {name: v for name, v in kwargs.items() if name != "device"}  # of no effect
        rows = alike_items.stacked(cap, args[0], nested) if args and kwargs.keys() <= names and all(
            is_const(v) for v in (*args[1:], *kwargs.values())) else None
        if rows is None or len(rows.aval.shape) < least:
            return library_call(cap, fn, list(args), kwargs)
        return library_call(cap, of_rows, [rows, *args[1:]], kwargs, name=fn.__name__)


for _name in ("array", "asarray", "stack", "vstack", "hstack", "column_stack"):
    _joins(getattr(jnp, _name), getattr(sized_calls, _name.removeprefix("as")))
_joins(jnp.concatenate, sized_calls.concatenate, least=2)


@row(np.dtype)
def _dtype(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    """Of an array of JAX it is that of its numbers; of one that is no tracer JAX warns of it."""
    if len(args) != 1 or kwargs or not (is_jax_array(args[0]) and is_numpy_dtype(args[0].aval.dtype)):
        return OPERATIONS.instantiate(cap, np.dtype, [*args], kwargs)
    if WARNS is not None and not is_tracer(cap, args[0], jax.core.Tracer):
        return OPERATIONS.enter(cap, Const(WARNS.fget), [args[0]])
    return cap.getattr(args[0], "dtype")


# What NumPy calls, from 2.4 on.
WARNS: Any = vars(jax.Array).get("__numpy_dtype__") if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else None
