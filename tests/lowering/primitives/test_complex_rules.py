"""Complex numbers as pairs of floats: what moves, folds and multiplies them, against eager JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.lowering.closed import same_as_eager, scheduled

DRAWN = np.random.RandomState(0)
Z = (DRAWN.randn(4, 6) + 1j * DRAWN.randn(4, 6)).astype(np.complex64)

MOVES = {
    "reshape": lambda z: z.reshape(6, 4).T,
    "pad": lambda z: lax.pad(z, np.complex64(1 - 2j), ((1, 0, 1), (-1, 2, 0))),
    "slice": lambda z: z[1:, ::2][::-1],
    "concatenate": lambda z: jnp.concatenate([z, z.conj(), jnp.ones_like(z)], 1),
    "gather": lambda z: z[jnp.array([2, 0, 0])],
    "scatter": lambda z: jnp.asarray(z).at[jnp.array([1, 1, 3])].add(2j).at[0].set(1),
    "select": lambda z: jnp.where(z.real > 0, z, -z),
    "sort": lambda z: jnp.sort(jnp.round(z), axis=1),
    "iota": lambda z: z + jnp.arange(6, dtype=np.complex64),
    "update": lambda z: lax.dynamic_update_slice(z, z[:2, :2], (1, 3)),
}
FOLDS = {
    "sum": lambda z: z.sum(0), "mean": lambda z: z.mean(), "prod": lambda z: z.prod(1), "max": lambda z: z.max(0),
    "min": lambda z: z.min(), "cumsum": lambda z: jnp.cumsum(z, 1), "cumprod": lambda z: jnp.cumprod(z, 0),
    "cummax": lambda z: lax.cummax(z, axis=1), "any": lambda z: z.any(0), "norm": jnp.linalg.norm,
    "window": lambda z: lax.reduce_window(z, np.complex64(0), lax.add, (2, 2), (1, 2), "SAME"),
}
OTHERS = {
    "power": lambda z: z**3 + z**-2 + z**0,
    "casts": lambda z: (z.astype(bool), z.real.astype(np.complex64), jnp.angle(z), z.imag),
    "matmul": lambda z: z @ z.conj().T,
    "mixed": lambda z: z.real @ z.T,
    "scalars": lambda z: (z[0, 0] * 2j, lax.complex(1.5, z[0, 1].imag)),
    "gradient": jax.grad(lambda z: jnp.abs(jnp.sin(z) * jnp.exp(1j * z)).sum()),
    "convolve": lambda z: lax.conv(z[None, None], z[None, None, :2, :3], (1, 1), "SAME"),
}


@pytest.mark.parametrize("name", [*MOVES, *FOLDS, *OTHERS])
def test_arrays(name):
    function = {**MOVES, **FOLDS, **OTHERS}[name]
    same_as_eager(function, Z, scale=4)


def test_a_product_through_the_template():
    z = (DRAWN.randn(40, 30) + 1j * DRAWN.randn(40, 30)).astype(np.complex64)
    same_as_eager(lambda z: jnp.exp(z.T @ z * 0.1j), z, scale=100)


def test_pairs_that_nobody_sees_are_gone():
    """Between an input and an output no complex number is in memory: one kernel."""
    made = scheduled(lambda z: jnp.abs(jnp.exp(z.T) * z.T + 1j), Z)
    assert [type(s).__name__ for s in made.steps] == ["KernelStep"] and len(made.buffers) == 2
