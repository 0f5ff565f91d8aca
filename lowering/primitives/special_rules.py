"""Special functions, approximate ones and solvers that stand for a composition of simpler primitives.

    bessel_i0e, bessel_i1e    Chebyshev series, fitted here to SciPy's functions; 16-bit floats in float32
    zeta, polygamma           ten terms of the series, then Euler and Maclaurin's formula
    igamma, igammac, ...      JAX's own series and continued fractions, loops included
    approx_top_k              the exact answer, as XLA gives it on CPUs
    bitcast_convert_type      a change of the width: shifts and masks of unsigned integers
    custom_linear_solve       the program's solver
    qr                        LAPACK's two steps, as JAX takes them
    ormqr                     few reflectors one after another, as JAX has it where there is no LAPACK
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax
from jax._src.dtypes import itemsize_bits
from jax._src.lax import linalg, special
from jax.extend.core import jaxpr_as_fun
from numpy.polynomial import chebyshev

from dynacomp.capture.graph.sizes import is_symbolic


def _always(eqn: Any) -> bool:
    return True


def _up(fn: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """The rewrite by `fn` of arrays in float32 or float64: 16-bit floats compute in float32."""

    def rewrite(eqn: Any) -> Callable[..., Any]:
        out = eqn.outvars[0].aval
        wide = jnp.promote_types(out.dtype, np.float32)

        def run(*args: Any) -> Any:
            full = [jnp.broadcast_to(lax.convert_element_type(x, wide), out.shape) for x in args]
            return lax.convert_element_type(fn(*full), out.dtype)

        return run

    return rewrite


# Bessel ---------------------------------------------------------------------------------------------


@functools.cache
def _bessel_series(order: int, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev coefficients of e^-x I(x) (over x, for order 1) on [0, 8], in x/4 - 1, and of its
    product with sqrt(x) on [8, inf), in 16/x - 1."""
    function = scipy.special.i1e if order else scipy.special.i0e
    near = lambda t: function(4 * (t + 1)) / (4 * (t + 1) if order else 1)
    far = lambda t: function(16 / (t + 1)) * np.sqrt(16 / (t + 1))
    degrees = (29, 24) if wide else (17, 6)
    first, second = chebyshev.chebinterpolate(near, degrees[0]), chebyshev.chebinterpolate(far, degrees[1])
    return first, second


def _clenshaw(t: Any, coefficients: np.ndarray) -> Any:
    after = before = jnp.zeros_like(t)
    for c in coefficients[:0:-1]:
        after, before = 2 * t * after - before + t.dtype.type(c), after
    return t * after - before + t.dtype.type(coefficients[0])


def _bessel(order: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        near, far = _bessel_series(order, x.dtype == np.float64)
        size = lax.abs(x)
        small = _clenshaw(size / 4 - 1, near)
        large = _clenshaw(16 / size - 1, far) / lax.sqrt(size)
        if order == 0:
            return jnp.where(size <= 8, small, large)
        return jnp.where(size <= 8, x * small, jnp.sign(x) * large)

    return run


# zeta -----------------------------------------------------------------------------------------------

TERMS, CORRECTIONS = 10, 12


def _zeta(x: Any, q: Any) -> Any:
    """Hurwitz' zeta function: the sum of (q + k)^-x."""
    number = x.dtype.type
    total = functools.reduce(lax.add, [lax.pow(q + number(k), -x) for k in range(TERMS)])
    a = q + number(TERMS)
    power = lax.pow(a, -x)
    total += power * a / (x - 1) + power / 2
    term = power * x / a
    bernoulli = scipy.special.bernoulli(2 * CORRECTIONS)
    for k in range(1, CORRECTIONS + 1):
        total += term * number(bernoulli[2 * k] / scipy.special.factorial(2 * k))
        term = term * ((x + number(2 * k - 1)) * (x + number(2 * k)) / (a * a))
    pole = (q <= 0) & (lax.floor(q) == q)
    total = jnp.where((q <= 0) & ~pole & (lax.floor(x) != x), number(np.nan), total)
    total = jnp.where(x < 1, number(np.nan), total)
    total = jnp.where(pole, jnp.where((x % 2 == 0), number(np.inf), number(np.nan)), total)
    return jnp.where(x == 1, number(np.inf), total)


def _polygamma(n: Any, x: Any) -> Any:
    sign = jnp.where(n % 2 == 0, x.dtype.type(-1), x.dtype.type(1))
    value = sign * lax.exp(lax.lgamma(n + 1)) * _zeta(n + 1, x)
    value = jnp.where(n == 0, lax.digamma(x), value)
    return jnp.where((n < 0) | (lax.floor(n) != n), x.dtype.type(np.nan), value)


def _by_jax(implementation: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    return _up(lambda *args: implementation(*args, dtype=args[0].dtype))


# the others -----------------------------------------------------------------------------------------


def _top(eqn: Any) -> Callable[[Any], list[Any]]:
    p = eqn.params
    axis, kept = p["reduction_dimension"], eqn.outvars[0].aval

    def run(x: Any) -> list[Any]:
        last = jnp.moveaxis(x, axis, -1)
        if p["is_max_k"]:
            values, indices = lax.top_k(last, kept.shape[axis])
        else:
            positions = lax.broadcasted_iota(np.int32, last.shape, last.ndim - 1)
            values, indices = (v[..., : kept.shape[axis]] for v in lax.sort((last, positions), num_keys=1))
        return [jnp.moveaxis(v, -1, axis) for v in (values, indices)]

    return run


def _changes_width(eqn: Any) -> bool:
    source, target = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    halves = any(itemsize_bits(d) < 8 for d in (source, target))  # two to a byte: XLA knows their order
    return source.itemsize != target.itemsize and not halves and not {source.kind, target.kind} & set("bc")


def _bitcast(eqn: Any) -> Callable[[Any], Any]:
    """The parts of a wide element, lowest bits first, are one more dimension of narrow ones."""
    source, target = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    narrow, wide = sorted((source.itemsize, target.itemsize))
    small, big = np.dtype(f"u{narrow}"), np.dtype(f"u{wide}")
    shifts = [big.type(8 * narrow * k) for k in range(wide // narrow)]

    def split(x: Any) -> Any:
        bits = lax.bitcast_convert_type(x, big)
        parts = [lax.convert_element_type(lax.shift_right_logical(bits, lax.full_like(bits, s)), small) for s in shifts]
        return lax.bitcast_convert_type(jnp.stack(parts, -1), target)

    def join(x: Any) -> Any:
        bits = lax.convert_element_type(lax.bitcast_convert_type(x, small), big)
        parts = [lax.shift_left(bits[..., k], lax.full_like(bits[..., k], s)) for k, s in enumerate(shifts)]
        return lax.bitcast_convert_type(functools.reduce(lax.bitwise_or, parts), target)

    return split if source.itemsize == wide else join


def _linear_solve(eqn: Any) -> Callable[..., Any]:
    lengths, solve = eqn.params["const_lengths"], eqn.params["jaxprs"].solve
    before = lengths.matvec + lengths.vecmat
    after = before + lengths.solve + lengths.transpose_solve
    return lambda *args: jaxpr_as_fun(solve)(*args[before : before + lengths.solve], *args[after:])


def _has_few_reflectors(eqn: Any) -> bool:
    """Whether a loop over them costs no more than a way to LAPACK, which takes many at once."""
    count = eqn.invars[1].aval.shape[-1]
    return not is_symbolic(count) and count <= MANY_REFLECTORS


MANY_REFLECTORS = 64
SPECIAL: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]] = {
    "bessel_i0e": (_always, _up(_bessel(0))),
    "bessel_i1e": (_always, _up(_bessel(1))),
    "zeta": (_always, _up(_zeta)),
    "polygamma": (_always, _up(_polygamma)),
    "igamma": (_always, _by_jax(special.igamma_impl)),
    "igammac": (_always, _by_jax(special.igammac_impl)),
    "igamma_grad_a": (_always, _by_jax(special.igamma_grad_a_impl)),
    "regularized_incomplete_beta": (_always, _by_jax(special.regularized_incomplete_beta_impl)),
    "approx_top_k": (_always, _top),
    "bitcast_convert_type": (_changes_width, _bitcast),
    "custom_linear_solve": (lambda eqn: not eqn.effects, _linear_solve),
    "ormqr": (_has_few_reflectors, lambda eqn: functools.partial(linalg._ormqr_lowering, **eqn.params)),
    "qr": (lambda eqn: not eqn.params["pivoting"], lambda eqn: functools.partial(linalg._qr_lowering, **eqn.params)),
}
