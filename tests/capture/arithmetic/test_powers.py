"""Powers of ints by one int that changes: JAX looks at the exponent where it can."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.known_powers import integer_power
from tests.capture.program_kit import outcome

INTS = jnp.asarray([-3, 7, -1, 0, 2])
EXPONENTS = (2, 3, 0, 5, 40, 70, 4, 1, 100, 6)
PROGRAMS = {
    "number": lambda n: jnp.power(2, n),
    "weak base": lambda n: jnp.asarray(3) ** n,
    "array base": lambda n: (INTS ** n, INTS.astype(jnp.int8) ** (n + 1), INTS.astype(bool) ** n),
    "exponent of an array": lambda n: (2 ** jnp.int8(n), INTS ** jnp.uint8(n), jnp.pow(3, jnp.arange(3).sum() + n)),
    "numpy": lambda n: (jnp.power(np.int8(3), np.int32(n)), INTS ** np.uint8(n)),
    "closure": lambda n: jax.vmap(lambda x: x ** n)(INTS),
    "under grad": lambda n: jax.grad(lambda y: y * jnp.power(jnp.int32(2), jnp.int32(n % 8)))(1.5),
    "unknown": lambda n: jax.vmap(lambda m: jnp.power(2, m))(jnp.asarray([n, n + 1])),
    "size": lambda n: jnp.power(3, jnp.zeros(n + 2).shape[0]),
    "floats": lambda n: (jnp.float16(2) ** (n % 8), 0.5 ** jnp.int32(n % 8)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_types_and_values_for_each_exponent(name):
    program = PROGRAMS[name]
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in EXPONENTS:
        for got, want in zip(jax.tree.leaves(compiled(n)), jax.tree.leaves(program(n)), strict=True):
            assert repr(got) == repr(want) and got.weak_type == want.weak_type, n
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda n: jnp.power(2, n), lambda n: INTS ** jnp.int32(n),
    lambda n: jax.grad(lambda y: y * 2 ** jnp.int32(n))(1.0)])
def test_negative_exponents_raise_what_jax_raises(program):
    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 2, 5, -1, 4, -3, 0):
        assert repr(outcome(compiled, (n,))) == repr(outcome(program, (n,))), n


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool"])
def test_integer_power_is_that_of_a_known_exponent(dtype):
    x = jnp.asarray([3, 0, 1, 7, -2]).astype(dtype)
    for n in (0, 1, 2, 31, 64, 100, 127):
        assert repr(integer_power(x, jnp.int8(n), 8)) == repr(x ** n)
