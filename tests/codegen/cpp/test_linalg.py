"""Small matrices in one native call: factors, solves, failures, against eager JAX."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import agree, same_as_eager

SOLVE = lax.linalg.triangular_solve


def arrays(seed):
    drawn = np.random.RandomState(seed)
    square, tall = drawn.randn(7, 5, 5).astype(np.float32), drawn.randn(7, 5, 3).astype(np.float32)
    return square, tall, drawn.randn(2, 4, 8).astype(np.float32).view(np.complex64)


def factors(a, b, z):
    s = a @ a.swapaxes(-1, -2) + jnp.eye(5) * 0.5
    h = z @ z.conj().swapaxes(-1, -2) + jnp.eye(4)
    singular = jnp.ones_like(a)
    return [
        jnp.linalg.cholesky(s), jnp.linalg.cholesky(-s), jnp.linalg.cholesky(h), jnp.linalg.solve(a, b),
        jnp.linalg.solve(z, h), jnp.linalg.inv(s), jnp.linalg.det(a), *jnp.linalg.slogdet(a),
        *lax.linalg.lu(a[..., :3]),
        *lax.linalg.lu(b), *lax.linalg.lu(singular), jnp.linalg.inv(singular),
    ]


def solves(a, b, z):
    a, z4 = a + 4 * jnp.eye(5), z + 4 * jnp.eye(4)
    flags = [(lower, transposed) for lower in (False, True) for transposed in (False, True)]
    return [
        *(SOLVE(a, b, left_side=True, lower=x, transpose_a=y) for x, y in flags),
        *(SOLVE(a, b.swapaxes(-1, -2), left_side=False, lower=x, transpose_a=y) for x, y in flags),
        SOLVE(a, b, left_side=True, unit_diagonal=True, lower=True),
        SOLVE(z4, z, left_side=True, transpose_a=True, conjugate_a=True),
        SOLVE(z4, z, left_side=False, conjugate_a=True),
        SOLVE(a, jnp.tile(b.swapaxes(-1, -2), (1, 7, 1)), left_side=False, unit_diagonal=True, transpose_a=True),
    ]


@pytest.mark.medium
def test_one_native_call():
    both = lambda *args: [*factors(*args), *solves(*args)]
    program = compiled(both, *arrays(0))
    assert not program.externs
    for seed in (0, 1):
        for got, want in zip(program(*arrays(seed)), both(*arrays(seed)), strict=True):
            agree(got, want, scale=50)


def test_references():
    a, b, z = arrays(0)
    same_as_eager(lambda a: jnp.linalg.cholesky(a @ a.swapaxes(-1, -2) + jnp.eye(5)), a, scale=50)
    same_as_eager(lambda b: lax.linalg.lu(b), b, scale=50)
    same_as_eager(lambda *args: solves(*args)[-4:], a, b, z, scale=50)
