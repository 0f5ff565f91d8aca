"""Complex numbers as pairs of floats: what every primitive does to real and imaginary parts.

A rewrite takes complex arrays apart (`real`, `imag`) and puts its result together (`complex`). What one
puts together the next takes apart again, so between the inputs and outputs of a graph there are floats
alone: `simplify` drops the pairs, and only arrays that are given, returned or handed to a template hold
complex numbers in memory.

    PARTWISE     primitives that do the same to both parts: all that moves elements, sums
    ARITHMETIC   name → a function of complex values (`Pair`s) that computes the result
    ELEMENTARY   the same for functions of one variable: see `complex_functions`
    FOLDS        reductions by an operation on pairs

Comparisons are lexicographic, as JAX's are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from dynacomp.capture.graph.sized_calls import associative_scan
from dynacomp.lowering.primitives import complex_functions as fn
from dynacomp.lowering.primitives.complex_functions import Pair
from dynacomp.lowering.primitives.reduce_rules import fold_axes, windows

PARTWISE = frozenset("""
    add add_any broadcast_in_dim concatenate copy cumsum dynamic_slice dynamic_update_slice gather neg pad
    reduce_sum reduce_window_sum reshape rev scatter scatter_add select_n slice sub transpose""".split())


def is_complex(var: Any) -> bool:
    return np.dtype(var.aval.dtype).kind == "c" if hasattr(var.aval, "dtype") and _plain(var.aval.dtype) else False


def _plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype)


def real_dtype(dtype: Any) -> np.dtype:
    """The dtype of the parts."""
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def split(x: Any) -> Pair:
    """An array as a pair; a real one has imaginary part 0."""
    return Pair(lax.real(x), lax.imag(x)) if jnp.iscomplexobj(x) else Pair(x, jnp.zeros_like(x))


def join(pair: Pair) -> Any:
    return lax.complex(pair.re, pair.im)


def _partwise(eqn: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        both = [(lax.real(a), lax.imag(a)) if jnp.iscomplexobj(a) else (a, a) for a in args]
        re, im = (eqn.primitive.bind(*part, **eqn.params) for part in zip(*both))
        return lax.complex(re, im)

    return run


def _on_pairs(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """The rewrite by a function of Pairs that gives a Pair or a real array."""

    def rewrite(eqn: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            out = function(*map(split, args))
            return join(out) if isinstance(out, Pair) else out

        return run

    return rewrite


def _convert(eqn: Any) -> Callable[[Any], Any]:
    target = np.dtype(eqn.params["new_dtype"])

    def run(x: Any) -> Any:
        pair = split(x)
        if target.kind == "c":
            part = real_dtype(target)
            return lax.complex(*(lax.convert_element_type(v, part) for v in (pair.re, pair.im)))
        if target == np.bool_:
            return lax.bitwise_or(lax.ne(pair.re, 0 * pair.re), lax.ne(pair.im, 0 * pair.im))
        return lax.convert_element_type(pair.re, target)

    return run


def _conj(eqn: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        pair = split(x)
        return lax.complex(pair.re, lax.neg(pair.im))

    return run


def _iota(eqn: Any) -> Callable[[], Any]:
    p = eqn.params

    def run() -> Any:
        re = lax.broadcasted_iota(real_dtype(p["dtype"]), p["shape"], p["dimension"])
        return lax.complex(re, jnp.zeros_like(re))

    return run


def _dot(eqn: Any) -> Callable[[Any, Any], Any]:
    part = real_dtype(eqn.outvars[0].aval.dtype)
    product = functools.partial(
        lax.dot_general, dimension_numbers=eqn.params["dimension_numbers"], preferred_element_type=part)

    def run(x: Any, y: Any) -> Any:
        a, b = split(x), split(y)
        return lax.complex(lax.sub(product(a.re, b.re), product(a.im, b.im)),
                           lax.add(product(a.re, b.im), product(a.im, b.re)))

    return run


def _convolution(eqn: Any) -> Callable[[Any, Any], Any]:
    """Three real convolutions, as JAX has it on CPUs."""
    params = {**eqn.params, "preferred_element_type": None}

    def run(x: Any, y: Any) -> Any:
        a, b = split(x), split(y)
        convolve = lambda u, v: eqn.primitive.bind(u, v, **params)
        first = convolve(a.re + a.im, b.re)
        second, third = convolve(a.re, b.im - b.re), convolve(a.im, b.re + b.im)
        return lax.complex(first - third, first + second)

    return run


def _sort(eqn: Any) -> Callable[..., Any]:
    """Keys by their real, then by their imaginary parts."""
    p = eqn.params

    def run(*args: Any) -> Any:
        apart = [[lax.real(a), lax.imag(a)] if jnp.iscomplexobj(a) else [a] for a in args]
        keys = sum(len(parts) for parts in apart[: p["num_keys"]])
        flat = iter(lax.sort([v for parts in apart for v in parts], dimension=p["dimension"],
                             is_stable=p["is_stable"], num_keys=keys))
        return [lax.complex(next(flat), next(flat)) if len(parts) == 2 else next(flat) for parts in apart]

    return run


def _fold(op: Callable[[Pair, Pair], Pair], start: complex) -> Callable[[Any], Callable[..., Any]]:
    """A reduction over `axes` by an operation on pairs."""

    def rewrite(eqn: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            first = (_start(start, x),)
            return join(split(fold_axes(_combine(op), first, (x,), eqn.params["axes"])[0]))

        return run

    return rewrite


def _start(value: complex, like: Any) -> Any:
    return np.asarray(value, like.dtype)


def _combine(op: Callable[[Pair, Pair], Pair]) -> Callable[[Any, Any], Any]:
    return lambda left, right: (join(op(split(left[0]), split(right[0]))),)


def _window(op: Callable[[Pair, Pair], Pair], start: complex) -> Callable[[Any], Callable[[Any], Any]]:
    def rewrite(eqn: Any) -> Callable[[Any], Any]:
        return lambda x: windows(_combine(op), (_start(start, x),), (x,), eqn.params)[0]

    return rewrite


def _running(op: Callable[[Pair, Pair], Pair]) -> Callable[[Any], Callable[[Any], Any]]:
    def rewrite(eqn: Any) -> Callable[[Any], Any]:
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]

        def run(x: Any) -> Any:
            pair = split(x)
            scan = lambda a, b: tuple(op(Pair(*a), Pair(*b)))
            return lax.complex(*associative_scan(scan, tuple(pair), reverse=reverse, axis=axis))

        return run

    return rewrite


_LOW, _HIGH = complex(-np.inf, -np.inf), complex(np.inf, np.inf)

COMPLEX: dict[str, Callable[[Any], Callable[..., Any]]] = {
    **dict.fromkeys(PARTWISE, _partwise),
    **{name: _on_pairs(function) for name, function in fn.FUNCTIONS.items()},
    "convert_element_type": _convert,
    "conj": _conj,
    "iota": _iota,
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "sort": _sort,
    "reduce_prod": _fold(fn.mul, 1),
    "reduce_max": _fold(fn.larger, _LOW),
    "reduce_min": _fold(fn.smaller, _HIGH),
    "reduce_window_max": _window(fn.larger, _LOW),
    "reduce_window_min": _window(fn.smaller, _HIGH),
    "cumprod": _running(fn.mul),
    "cummax": _running(fn.larger),
    "cummin": _running(fn.smaller),
}
"""name → the rewrite of an equation that has complex operands or results."""


def complex_rewrite(eqn: Any) -> Callable[..., Any] | None:
    """The function of real and imaginary parts that stands for an equation, or None."""
    name = eqn.primitive.name.replace("-", "_")
    if name not in COMPLEX or not any(map(is_complex, (*eqn.invars, *eqn.outvars))):
        return None
    return COMPLEX[name](eqn)
