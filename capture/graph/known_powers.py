"""Powers by one int that Python could look at, as arrays: what `jnp.power` and `x ** n` compute of such an exponent.

Of a known exponent JAX multiplies as often as it says, in the type of the base: `integer_pow`. Of an unknown one it
promotes both, looks at six bits of an int's, and takes logarithms of floats; its derivative by the base, too, is
another one: strongly typed, and not a number in the second order at zero. Here the exponent is unknown, and all is as
if it were known. Of ints it is never negative: see `arithmetic.powers`.

    >>> import jax.numpy as jnp
    >>> known_power(3, jnp.int8(100), 7)
    Array(-1412623820, dtype=int32, weak_type=True)
    >>> jax.grad(lambda x: known_power(x, jnp.int8(-1), 2))(2.0)
    Array(-0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.numpy.util import promote_dtypes_numeric

from dynacomp.capture.graph.avals import weakly


def known_power(base: Any, exponent: Any, bits: int) -> Any:
    """`lax.integer_pow(base, exponent)`, as so many bits of the exponent's absolute value say (but for real floats)."""
    base, = promote_dtypes_numeric(base)
    exponent = jnp.asarray(exponent)
    if exponent.dtype.itemsize < 4:  # it is counted down and up, and made positive
        exponent = lax.convert_element_type(exponent, np.int32)
    return _power(bits)(base, exponent) if jnp.issubdtype(base.dtype, np.inexact) else _by_bits(bits, base, exponent)


@functools.cache
def _power(bits: int) -> Any:
    power = jax.custom_jvp(lambda x, n: (_by_bits(bits, x, n) if jnp.iscomplexobj(x) else _by_logarithms(x, n)))

    @power.defjvp
    def derived(primals: Any, tangents: Any) -> Any:
        (x, n), by = primals, tangents[0]
        below = _power(bits + 1)(x, lax.select(n == 0, n, n - 1))
        slope = lax.mul(by, lax.mul(lax.broadcast(lax.full_like(x, n, shape=()), x.shape), below))
        return power(x, n), lax.select(_wide(n == 0, slope), lax.full_like(slope, 0), slope)

    return power


def _by_logarithms(x: Any, n: Any) -> Any:
    wide = x if x.dtype.itemsize >= 4 else lax.convert_element_type(x, np.float32)  # which holds the exponent
    made = lax.pow(wide, weakly(n))
    return made if wide is x else lax.convert_element_type(made, x.dtype)


def _by_bits(bits: int, x: Any, n: Any) -> Any:
    made, square, rest = lax.full_like(x, 1), x, lax.abs(n) if jnp.issubdtype(n.dtype, np.signedinteger) else n
    for i in range(bits):
        made = lax.select(_wide((rest >> i) & 1 == 1, square), lax.mul(made, square), made)
        square = lax.mul(square, square)
    if not jnp.iscomplexobj(x):
        return made
    return lax.select(_wide(n < 0, made), lax.div(lax.full_like(made, 1), made), made)


def _wide(truth: Any, like: Any) -> Any:
    return lax.broadcast(truth, like.shape)
