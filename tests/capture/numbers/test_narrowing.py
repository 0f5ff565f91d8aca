"""`numbers.narrowing`: a Python int meets a narrower array as in eager JAX: it fits, or OverflowError."""

import jax.numpy as jnp
import pytest

import dynacomp


def outcome(fn, *args):
    try:
        return fn(*args).tolist()
    except OverflowError as error:
        return str(error)


@pytest.mark.parametrize("dtype, numbers", [
    ("uint8", (3, 4, 200, 255, 256, -1, 5)), ("int8", (1, 2, 127, 128, -128, -129, 3)), ("int16", (9, 8, 40000, 7))])
def test_an_int_that_changes(dtype, numbers):
    def program(x, k):
        return x + k

    dynacomp.reset()
    x, compiled = jnp.arange(3).astype(dtype), dynacomp.jit(program, backend="eager")
    for k in numbers:
        assert outcome(compiled, x, k) == outcome(program, x, k), k
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["frames_captured"] < len(numbers)


def test_a_size_that_no_longer_fits():
    def program(x, small):
        return small * x.shape[0]

    dynacomp.reset()
    small, compiled = jnp.ones(2, jnp.int8), dynacomp.jit(program, backend="eager")
    for n in (3, 4, 5, 100, 127, 128, 300, 6):
        assert outcome(compiled, jnp.zeros(n), small) == outcome(program, jnp.zeros(n), small), n
    assert dynacomp.stats()["breaks"].keys() == {"size_constant"}  # for what does not fit, the size is a constant
