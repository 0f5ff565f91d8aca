"""Updates of rows that never meet run inside out on threads; those that may meet keep their order."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.codegen.cpp_kit import compiled

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 130)).astype(np.float32)
IDS = RNG.integers(-60, 60, 400).astype(np.int32)  # repeated, negative and outside
ROWS = RNG.standard_normal((400, 130)).astype(np.float32)


@pytest.mark.parametrize("how", ["add", "max", "mul"])
def test_rows_apart(how: str) -> None:
    def update(x: jnp.ndarray, i: jnp.ndarray, u: jnp.ndarray) -> jnp.ndarray:
        return getattr(x.at[i], how)(u)

    program = compiled(update, X, IDS, ROWS)
    assert "ceil_div(130, 64)" in "".join(program.source.values())
    got = np.asarray(program(*map(jnp.asarray, (X, IDS, ROWS)))[0])
    np.testing.assert_allclose(got, update(jnp.asarray(X), IDS, ROWS), rtol=1e-5, atol=1e-5)


def test_windows_that_overlap() -> None:
    def update(x: jnp.ndarray, i: jnp.ndarray, u: jnp.ndarray) -> jnp.ndarray:
        return x.at[:, i[:, None] + jnp.arange(8)].add(u)

    starts, rows = np.abs(IDS[:20]), RNG.standard_normal((50, 20, 8)).astype(np.float32)
    got = np.asarray(compiled(update, X, starts, rows)(*map(jnp.asarray, (X, starts, rows)))[0])
    np.testing.assert_allclose(got, update(jnp.asarray(X), starts, rows), rtol=1e-5, atol=1e-5)
