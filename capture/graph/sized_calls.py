"""Functions of JAX that ask for Python ints where the program may have symbolic sizes, written with arrays instead.

`lax.scan(f, init, None, length=n)` runs over an array of `n` rows without elements, and `lax.fori_loop` is such a
scan, as JAX makes it where it knows the bounds. `jnp.convolve` asks for `len(x)`, which no symbolic size can answer.
They are what `array_rows` puts into the Graph. `jnp.einsum` chooses the order of its products by the sizes at hand.
`lax.psum` of what all places of a named axis have alike multiplies by the axis's size; `pmean` divides by that of 1.

    >>> fori_of_length(0, 3, lambda i, x: x + i, 1.0)
    Array(4., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import opt_einsum
from jax._src.lax import convolution, lax, parallel
from jax._src.lax.control_flow import loops
from jax._src.lax.lax import _convert_element_type, _sort_le_comparator, _sort_lt_comparator
from jax._src.numpy.einsum import _poly_einsum_handlers as CONTRACTORS
from jax._src.numpy.util import promote_dtypes, promote_dtypes_inexact

from dynacomp.capture.graph.avals import weak
from dynacomp.capture.graph.sizes import Size, is_symbolic

JAX_ASSOCIATIVE_SCAN = jax.lax.associative_scan
JAX_CONST = lax._const
JAX_SCAN_LENGTH = loops._infer_scan_length


def scan_of_length(f: Callable[..., Any], init: Any, length: Any, reverse: bool = False, unroll: Any = 1) -> Any:
    """`jax.lax.scan(f, init, None, length)`."""
    return jax.lax.scan(lambda carry, _: f(carry, None), init, jnp.empty((length, 0)), reverse=reverse, unroll=unroll)


def fori_of_length(lower: Any, length: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """`jax.lax.fori_loop(lower, lower + length, body_fun, init_val)`."""
    def step(carry: Any, _: Any) -> Any:
        i, value = carry
        return (i + 1, body_fun(i, value)), None

    (_, found), _ = jax.lax.scan(step, (weak(jnp.asarray(lower), int), init_val), jnp.empty((length, 0)))
    return found


def rows_of_length(lower: Any, length: Any, body_fun: Callable[..., Any], init_val: tuple[Any, ...],
                   tables: tuple[Any, ...] = (), kinds: tuple[type, ...] = ()) -> Any:
    """`fori_of_length` of a state of several arrays; what `body_fun` gives beyond them is kept of each round. It gets
    the numbers that a row of each table holds, of these types."""
    count = len(init_val)

    def step(carry: Any, row: Any) -> Any:
        i, value = carry
        numbers = [weak(x, kind) for part, kind in zip(row[1:], kinds) for x in part]
        made = body_fun(i, value, *numbers)
        return (i + 1, made[:count]), made[count:]

    start = weak(jnp.asarray(lower), int), init_val
    (_, found), rows = jax.lax.scan(step, start, (jnp.empty((length, 0)), *tables))
    return (*found, *rows)


def associative_scan(fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """`jax.lax.associative_scan`, which combines halves of halves and so has to know how many elements there are: of an
    unknown number each is combined with what those before it came to."""
    flat, tree = jax.tree.flatten(elems)
    if not callable(fn) or not any(type(d) is Size for x in flat for d in np.shape(x)[axis:][:1]):
        return JAX_ASSOCIATIVE_SCAN(fn, elems, reverse=reverse, axis=axis)
    given, axis = axis, axis % flat[0].ndim
    if any(x.shape[axis] != flat[0].shape[axis] for x in flat[1:]):
        raise ValueError("Array inputs to associative_scan must have the same first dimension. (saw: "
                         f"{[x.shape for x in flat]})")
    if flat[0].shape[axis] == 0:
        return elems

    def kept(parts: Any) -> Any:
        return jax.tree.unflatten(tree, [jnp.expand_dims(x, axis) for x in parts])

    def step(before: Any, row: Any) -> Any:
        found = [jnp.squeeze(x, axis) for x in jax.tree.leaves(fn(kept(before), kept(row)))]
        return found, found

    rows = [jnp.moveaxis(jax.lax.rev(x, [given]) if reverse else x, axis, 0) for x in flat]
    _, rest = jax.lax.scan(step, [x[0] for x in rows], [x[1:] for x in rows])
    found = [jnp.moveaxis(jnp.concatenate([x[:1], more]), 0, axis) for x, more in zip(rows, rest)]
    return jax.tree.unflatten(tree, [jax.lax.rev(x, [given]) for x in found] if reverse else found)


def constant(example: Any, value: Any) -> Any:
    """`lax._const`: the number as `example` is one, here the size of a named axis over which a constant is summed."""
    if not is_symbolic(value) or type(example) in (bool, float, complex):
        return JAX_CONST(example, value)
    if type(example) is int:
        return value
    dtype = jax.dtypes.canonicalize_dtype(example.dtype)
    return _convert_element_type(jnp.asarray(value), dtype, weak_type=getattr(example, "weak_type", False))


def scan_length(xs_flat: list[Any], xs_avals: list[Any], length: Any) -> Any:
    """How many rounds `lax.scan` makes. One told beside the arrays that have as many rows is theirs (`hk.scan`)."""
    if is_symbolic(length) and xs_flat and all(np.shape(x)[:1] == (length,) for x in xs_flat):
        length = None
    return JAX_SCAN_LENGTH(xs_flat, xs_avals, length)


def arange(start: Any, step: Any, length: Any, dtype: Any) -> Any:
    """`jnp.arange` of numbers that change, one of them a float; see `length_of_arange`."""
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    half = step is not None and jnp.issubdtype(dtype, np.floating) and jnp.finfo(dtype).bits < 32
    working = np.dtype(np.float32) if half else dtype
    found = jax.lax.broadcasted_iota(working, (length,), 0)
    if step is not None:
        found = jnp.asarray(step, working) * found
    return (jnp.asarray(start, working) + found).astype(dtype)


def length_of_arange(start: Any, stop: Any, step: Any) -> int:
    """How many numbers there are from `start` to `stop`, by `step`."""
    return max(0, int(np.ceil((stop - start) / step)))


def diag_indices(n: Any, ndim: Any) -> Any:
    """`jnp.diag_indices` of a positive size, which it compares with zero as an array."""
    return (jnp.arange(n, dtype=int),) * ndim


def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """`jnp.convolve` of two vectors that have elements."""
    long, short = (v, a) if a.shape[0] < v.shape[0] else (a, v)
    return _slide(long, jnp.flip(short), mode, precision, preferred_element_type)


def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """`jnp.correlate` of two vectors that have elements."""
    if a.shape[0] < v.shape[0]:
        return jnp.flip(_slide(jnp.conj(v), a, mode, precision, preferred_element_type))
    return _slide(a, jnp.conj(v), mode, precision, preferred_element_type)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Any:
    """`jnp.searchsorted` in a vector that has elements: an interval is halved for each of `v` as often as the length
    asks when the Graph runs. No way of searching (`method`) gives other results."""
    a, v = promote_dtypes(a, v)
    if sorter is not None:
        a = a[sorter]
    a, v = jax.lax.stop_gradient((a, v))
    is_before = _sort_le_comparator if side == "left" else _sort_lt_comparator
    dtype = np.dtype(np.int64 if a.shape[0] > np.iinfo(np.int32).max else np.int32)  # as JAX has it for known sizes
    n = jnp.asarray(a.shape[0], dtype)

    def halve(_: Any, interval: Any) -> Any:
        low, high = interval
        middle = low + (high - low) // 2
        left = is_before(v, a[middle])
        return jnp.where(left, low, middle), jnp.where(left, middle, high)

    start = jnp.zeros(v.shape, dtype)
    halvings = dtype.itemsize * 8 - jax.lax.clz(n)
    return jax.lax.fori_loop(0, halvings, halve, (start, start + n))[1]


def permutation(key: Any, x: Any, axis: int, independent: bool, rounds: int) -> Any:
    """`jax.random.permutation` of an array, or of the first `x` ints; see `rounds_of_permutation`."""
    if np.ndim(x) == 0:
        return _shuffled(key, jnp.arange(x), 0, rounds)
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis, rounds)
    return jnp.take(x, _shuffled(key, jnp.arange(x.shape[axis]), 0, rounds), axis, unique_indices=True)


def _shuffled(key: Any, x: Any, axis: int, rounds: int) -> Any:
    for _ in range(rounds):
        key, own = jax.random.split(key)
        _, x = jax.lax.sort_key_val(jax.random.bits(own, x.shape, np.uint32), x, axis)
    return x


def rounds_of_permutation(size: int) -> int:
    """How often JAX sorts so many elements by 32 random bits, so that no two are likely to have the same bits."""
    return int(np.ceil(3 * np.log(max(1, size)) / np.log(np.iinfo(np.uint32).max)))


def most_permuted(rounds: int) -> int:
    """The largest size that JAX sorts so often, or less often; -1 where there is none."""
    if rounds < 0:
        return -1
    size = int(np.iinfo(np.uint32).max ** (rounds / 3)) + 1
    while rounds_of_permutation(size) > rounds:
        size -= 1
    return size


def _slide(long: Any, short: Any, mode: str, precision: Any, preferred: Any) -> Any:
    """The sums of products of `short` with what it covers of `long`, at each of its places."""
    long, short = promote_dtypes(long, short) if preferred else promote_dtypes_inexact(long, short)
    n = short.shape[0]
    padding = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1, n - 1)}[mode]
    if not all(isinstance(p, int) for p in padding):  # which the convolution asks for
        long, padding = jnp.pad(long, padding), (0, 0)
    found = jax.lax.conv_general_dilated(long[None, None, :], short[None, None, :], (1,), [padding],
                                         precision=precision, preferred_element_type=preferred)
    return found[0, 0, :]


def contract_path(*operands: Any, **options: Any) -> Any:
    """`opt_einsum.contract_path` of arrays of symbolic sizes, by the sizes at hand: the order of products is eager
    JAX's, and a size that is known fits one that is not, where they are equal. What does not fit JAX finds out
    itself when it multiplies."""
    shown = [jax.ShapeDtypeStruct(tuple(map(_at_hand, op.shape)), op.dtype) if hasattr(op, "dtype") else op
             for op in operands]
    places = dict(zip(map(id, shown), operands))
    ordered, contractions = opt_einsum.contract_path(*shown, **options)
    return [places[id(op)] for op in ordered], contractions


def _at_hand(size: Any) -> int:
    return size.scope.value(size) if is_symbolic(size) else size


def index_or_size(x: Any) -> Any:
    """`operator.index`, which lets a Size be."""
    return x if type(x) is Size else operator.index(x)


CONTRACTORS[Size] = contract_path  # type: ignore[index]  # a row of the table for dimensions of ours
loops._infer_scan_length = scan_length
parallel.lax = types.SimpleNamespace(**vars(lax) | {"_const": constant})  # type: ignore[assignment]
loops.associative_scan = associative_scan  # for the derivatives of cumulative products and maxima
# JAX asks for the indices of a convolution's padding, which derivatives compute from sizes; what it makes of "SAME" it
# takes as it is, sizes too.
convolution.operator = types.SimpleNamespace(**vars(operator) | {"index": index_or_size})  # type: ignore[assignment]


# --- what puts a list of arrays together, of `rows` that are its items


def array(rows: Any, dtype: Any = None) -> Any:
    """`jnp.array(list(rows))`."""
    return jax.lax.convert_element_type(rows, rows.dtype if dtype is None else dtype)


def _as(rows: Any, dtype: Any) -> Any:
    return rows if dtype is None else array(rows, dtype)


def stack(rows: Any, axis: int = 0, dtype: Any = None) -> Any:
    """`jnp.stack(list(rows))`."""
    return jnp.moveaxis(_as(rows, dtype), 0, axis)


def concatenate(rows: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """`jnp.concatenate(list(rows))` of arrays that have axes."""
    rows = _as(rows, dtype)
    if axis is None:
        return rows.reshape(-1)
    axis = axis + rows.ndim - 1 if axis < 0 else axis
    found = jnp.moveaxis(rows, 0, axis)
    shape = found.shape
    return found.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:])


def vstack(rows: Any, dtype: Any = None) -> Any:
    """`jnp.vstack(list(rows))`."""
    return _as(rows[:, None] if rows.ndim == 1 else rows, dtype) if rows.ndim < 3 else concatenate(rows, 0, dtype)


def hstack(rows: Any, dtype: Any = None) -> Any:
    """`jnp.hstack(list(rows))`."""
    return _as(rows, dtype) if rows.ndim == 1 else concatenate(rows, 0 if rows.ndim == 2 else 1, dtype)


def column_stack(rows: Any) -> Any:
    """`jnp.column_stack(list(rows))`."""
    return (rows[None] if rows.ndim == 1 else rows.T) if rows.ndim < 3 else concatenate(rows, 1)
