"""Reductions by a function of the program's, windows of them, and running ones, as simpler primitives.

    reduce                 a known function (`MONOIDS`): its own reduction, then the start value;
                           else neighbours are combined, again and again
    reduce_window          a few cells one after the other, else windows of 2, 4, 8 ... elements along
                           one dimension after the other; padding is passed over, as XLA does on CPUs
    select_and_gather_add  the same, over pairs of (operand, tangent)
    cumlogsumexp           each prefix out of two shorter ones, of an unknown length one after the other
    psum, pmax, pmin       what `jax.vmap(f, axis_name=...)` makes of them: reductions of its dimension

Whatever is not combined one after the other asks that the function be associative; so does XLA, which
promises no order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from dynacomp.capture.graph.sized_calls import associative_scan

Arrays = tuple[Any, ...]
Combine = Callable[[Arrays, Arrays], Arrays]

IN_ORDER = 16
"""So many elements of a reduction, cells of a window, are combined one after the other, in XLA's order."""

MONOIDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lax.reduce_sum, lax.add),
    "mul": (lax.reduce_prod, lax.mul),
    "max": (lax.reduce_max, lax.max),
    "min": (lax.reduce_min, lax.min),
    "and": (lax.reduce_and, lax.bitwise_and),
    "or": (lax.reduce_or, lax.bitwise_or),
    "xor": (lax.reduce_xor, lax.bitwise_xor),
}


def _monoid(jaxpr: Any) -> str | None:
    """The name in `MONOIDS` of a function of two scalars, or None."""
    body = getattr(jaxpr, "jaxpr", jaxpr)
    if len(body.eqns) != 1 or len(body.invars) != 2:
        return None
    (eqn,) = body.eqns
    name = eqn.primitive.name
    return name if name in MONOIDS and list(eqn.invars) == body.invars and list(eqn.outvars) == body.outvars else None


def elementwise(jaxpr: Any, consts: Sequence[Any] = ()) -> Combine:
    """A function of 2n scalars as one of two n-tuples of arrays."""
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts)

    def combine(left: Arrays, right: Arrays) -> Arrays:
        fn: Callable[..., Any] = jaxpr_as_fun(closed)
        for _ in range(left[0].ndim):
            fn = jax.vmap(fn)
        return tuple(fn(*left, *right))

    return combine


def _filled(like: Arrays, values: Arrays) -> Arrays:
    return tuple(lax.broadcast(v, x.shape) for x, v in zip(like, values))


# reduce ---------------------------------------------------------------------------------------------


def _reduces(eqn: Any) -> bool:
    dims = [eqn.invars[0].aval.shape[d] for d in eqn.params["dimensions"]]
    return all(isinstance(d, int) for d in dims) or _monoid(eqn.params["jaxpr"]) is not None


def _reduce(eqn: Any) -> Callable[..., Any]:
    axes, jaxpr, count = eqn.params["dimensions"], eqn.params["jaxpr"], len(eqn.invars) // 2
    known = _monoid(jaxpr)
    if known is not None:
        fold, op = MONOIDS[known]

        def run_known(x: Any, start: Any) -> list[Any]:
            folded = fold(x, tuple(axes))
            return [op(lax.broadcast(start, folded.shape), folded)]

        return run_known
    combine = elementwise(jaxpr)

    def run(*args: Any) -> list[Any]:
        return list(fold_axes(combine, args[count:], args[:count], axes))

    return run


def fold_axes(combine: Combine, start: Arrays, arrays: Arrays, axes: Sequence[int]) -> Arrays:
    """`reduce` by `combine` from scalars `start`."""
    rows = tuple(_axes_first(x, axes) for x in arrays)
    return _fold_rows(combine, tuple(lax.broadcast(v, rows[0].shape[1:]) for v in start), rows)


def _axes_first(x: Any, axes: Sequence[int]) -> Any:
    """`x` with `axes` as one leading dimension."""
    rest = [d for d in range(x.ndim) if d not in axes]
    length = math.prod(x.shape[d] for d in axes)
    return lax.reshape(lax.transpose(x, (*axes, *rest)), (length, *(x.shape[d] for d in rest)))


def _fold_rows(combine: Combine, start: Arrays, rows: Arrays) -> Arrays:
    if rows[0].shape[0] <= IN_ORDER:
        each = [tuple(x[i] for x in rows) for i in range(rows[0].shape[0])]
        return functools.reduce(combine, each, start)
    while (length := rows[0].shape[0]) > 1:
        even = length // 2 * 2
        pairs = [tuple(lax.slice_in_dim(x, k, even, 2) for x in rows) for k in (0, 1)]
        joined = combine(*pairs)
        last = tuple(lax.slice_in_dim(x, even, length) for x in rows)
        rows = joined if even == length else tuple(lax.concatenate(p, 0) for p in zip(joined, last))
    return combine(start, tuple(x[0] for x in rows))


# windows --------------------------------------------------------------------------------------------


def windows(combine: Combine, start: Arrays, arrays: Arrays, p: dict[str, Any], in_order: int = IN_ORDER) -> Arrays:
    """`reduce_window` by `combine` from scalars `start`, with the parameters of its equation."""
    if any(max(pair) > 0 for pair in p["padding"]) or any(b != 1 for b in p["base_dilation"]):
        there = lax.full(arrays[0].shape, True)
        edge, start = (*start, jnp.asarray(False)), (*start, jnp.asarray(True))
        arrays, combine = (*arrays, there), _passing_over(combine)
    else:
        edge = start
    inside = [(low, high, base - 1) for (low, high), base in zip(p["padding"], p["base_dilation"])]
    padded = tuple(lax.pad(x, v, inside) for x, v in zip(arrays, edge))
    rows = list(zip(p["window_dimensions"], p["window_dilation"], p["window_strides"]))
    if math.prod(p["window_dimensions"]) <= in_order:
        cells = [_cell(padded, cell, rows) for cell in np.ndindex(*p["window_dimensions"])]
        return functools.reduce(combine, cells, _filled(cells[0], start))
    for axis, (window, dilation, stride) in enumerate(rows):
        whole = _sliding(combine, padded, axis, window, dilation)
        padded = tuple(lax.slice_in_dim(x, 0, x.shape[axis], stride, axis) for x in whole)
    return combine(_filled(padded, start), padded)


def _passing_over(combine: Combine) -> Combine:
    """`combine` of arrays whose last says which elements there are: of padding and the holes of a dilation, none."""

    def choose(left: Arrays, right: Arrays) -> Arrays:
        *values, have = left
        *others, more = right
        both = combine(tuple(values), tuple(others))
        chosen = [lax.select(more, new, old) for new, old in zip(both, values)]
        return (*(lax.select(have, c, o) for c, o in zip(chosen, others)), lax.bitwise_or(have, more))

    return choose


def _cell(arrays: Arrays, cell: tuple[int, ...], rows: Sequence[tuple[int, int, int]]) -> Arrays:
    """What all windows show in one cell."""

    def take(x: Any) -> Any:
        for axis, (at, (window, dilation, stride)) in enumerate(zip(cell, rows)):
            end = x.shape[axis] - (window - 1 - at) * dilation
            x = lax.slice_in_dim(x, at * dilation, end, stride, axis)
        return x

    return tuple(map(take, arrays))


def _sliding(combine: Combine, arrays: Arrays, axis: int, window: int, dilation: int) -> Arrays:
    """Every window along `axis`, out of two that are half as long."""
    if window == 1:
        return arrays
    near, far = (window // 2, window // 2) if window % 2 == 0 else (window - 1, 1)
    left = _sliding(combine, arrays, axis, near, dilation)
    right = left if far == near else arrays
    length = arrays[0].shape[axis] - (window - 1) * dilation
    cut = lambda x, at: lax.slice_in_dim(x, at, at + length, 1, axis)
    return combine(tuple(cut(x, 0) for x in left), tuple(cut(x, near * dilation) for x in right))


def _reduce_window(eqn: Any) -> Callable[..., Any]:
    combine, count = elementwise(eqn.params["jaxpr"], eqn.params["consts"]), len(eqn.invars) // 2
    made = [v.aval for v in eqn.outvars]

    def run(*args: Any) -> list[Any]:
        if any(d == 0 for d in made[0].shape):  # the window does not fit
            return [lax.full(a.shape, 0, a.dtype) for a in made]
        return list(windows(combine, args[count:], args[:count], eqn.params)[:count])

    return run


MAX_CELLS = 64
"""Windows of a pooling's second derivative are gone through in order up to so many cells, for the sake of NaNs."""


def _gather_chosen(eqn: Any) -> Callable[[Any, Any], Any]:
    """The tangent of the element that each window chooses: the first of the best."""
    select = eqn.params["select_prim"]
    worst = -np.inf if select.name == "ge" else np.inf

    def combine(left: Arrays, right: Arrays) -> Arrays:
        kept = select.bind(left[0], right[0])
        return tuple(lax.select(kept, x, y) for x, y in zip(left, right))

    def run(tangents: Any, operand: Any) -> Any:
        start = (jnp.asarray(worst, operand.dtype), jnp.asarray(0, tangents.dtype))
        return windows(combine, start, (operand, tangents), eqn.params, MAX_CELLS)[1]

    return run


# running --------------------------------------------------------------------------------------------


def _running(eqn: Any) -> Callable[[Any], Any]:
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]
    return lambda x: associative_scan(jnp.logaddexp, x + 0, reverse=reverse, axis=axis)  # -0 + 0: XLA gives no -0


# collective -----------------------------------------------------------------------------------------


def _stays_here(eqn: Any) -> bool:
    """Whether it goes over dimensions of its array alone, and no axis of devices."""
    return eqn.params["axis_index_groups"] is None and all(isinstance(axis, int) for axis in eqn.params["axes"])


def _collective(fold: Callable[..., Any]) -> Callable[[Any], Callable[[Any], Any]]:
    return lambda eqn: lambda x: fold(x, tuple(eqn.params["axes"]))


def _known_sizes(eqn: Any) -> bool:
    return all(isinstance(d, int) for d in eqn.invars[0].aval.shape)


REDUCTIONS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]] = {
    "reduce": (_reduces, _reduce),
    "reduce_window": (lambda eqn: True, _reduce_window),
    "select_and_gather_add": (_known_sizes, _gather_chosen),
    "cumlogsumexp": (lambda eqn: True, _running),
    "psum": (_stays_here, _collective(lax.reduce_sum)),
    "pmax": (_stays_here, _collective(lax.reduce_max)),
    "pmin": (_stays_here, _collective(lax.reduce_min)),
}
