"""capture.graph.known_powers: powers by an int that is an array are those by an int that Python can look at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.known_powers import known_power


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "complex64"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_as_where_the_exponent_is_known(n, dtype):
    x = jnp.asarray([0, 1, 2, 3]).astype(dtype)
    got, want = known_power(x, jnp.int32(n), 4), lax.integer_pow(x, n)
    assert (got.dtype, got.weak_type) == (want.dtype, want.weak_type)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("n", [-2, 0, 1, 2, 3])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_derivatives_of_each_order_at_zero_and_beside_it(n, times):
    def derived(power):
        for _ in range(times):
            power = jax.grad(power)
        return power

    for x in (0.0, 2.0, -1.5):
        if n < 0 and x == 0:
            continue
        got, want = (derived(p)(x) for p in (lambda t: known_power(t, jnp.int8(n), 7), lambda t: lax.integer_pow(t, n)))
        assert got.weak_type == want.weak_type
        np.testing.assert_allclose(got, want, rtol=1e-5)
