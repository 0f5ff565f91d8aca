"""Powers of ints by one int that Python could look at, as arrays: what `jnp.power` computes of such an exponent.

Of a known exponent JAX multiplies as often as it says, in the type of the base: `integer_pow`. Of an unknown one it
promotes both, and looks at six bits. The exponent is never negative here: see `arithmetic.powers`.

    >>> import jax.numpy as jnp
    >>> integer_power(3, jnp.int8(100), 7)
    Array(-1412623820, dtype=int32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax._src.numpy.util import promote_dtypes_numeric


def integer_power(base: Any, exponent: Any, bits: int) -> Any:
    """`lax.integer_pow(base, exponent)` of ints, as so many bits of the exponent say."""
    square, = promote_dtypes_numeric(base)
    made = lax.full_like(square, 1)
    rest = jnp.asarray(exponent)
    for i in range(bits):
        made = lax.select(lax.broadcast((rest >> i) & 1 == 1, square.shape), lax.mul(made, square), made)
        square = lax.mul(square, square)
    return made
