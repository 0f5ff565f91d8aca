"""Powers of ints by one int that changes: JAX looks at the exponent where it can."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.known_powers import known_power
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
    "narrow ints": lambda n: INTS ** np.uint8(n) + jnp.power(jnp.int8(2), np.int16(n % 6)),
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


FLOATS = jnp.asarray([0.0, 1.5, -2.0, -1.0])
DERIVATIVES = {
    "grad of a number": lambda n: jax.grad(lambda t: t ** n)(2.0),
    "grad": lambda n: jax.grad(lambda x: jnp.power(x, n).sum())(FLOATS),
    "exponent of JAX": lambda n: jax.grad(lambda t: t ** jnp.int32(n))(2.0),
    "exponent of NumPy": lambda n: jax.grad(lambda t: jnp.power(t, np.int8(n)))(2.0),
    "exponent of a size": lambda n: jax.grad(lambda t: t ** jnp.zeros(abs(n) + 2).shape[0])(jnp.asarray(2.0)),
    "hessian": lambda n: jax.hessian(lambda x: (x ** n).sum())(FLOATS),
    "of lax": lambda n: (jax.grad(lambda t: jax.lax.integer_pow(t, n))(2.0), jax.lax.integer_pow(FLOATS, n)),
    "third": lambda n: jax.grad(jax.grad(jax.grad(lambda t: t ** n)))(0.0 if n >= 0 else 1.0),
    "jvp": lambda n: jax.jvp(lambda t: t ** n, (2.0,), (jnp.asarray(1.0),)),
    "vmap": lambda n: jax.vmap(jax.value_and_grad(lambda t: t ** n))(FLOATS),
    "jit": lambda n: jax.grad(lambda t: jax.jit(lambda t: t ** 2)(t) ** n)(2.0),
    "complex": lambda n: (jax.grad(lambda z: z ** n, holomorphic=True)(1 + 2j), jnp.asarray([1 + 2j, 1j]) ** n),
    "narrow floats": lambda n: jax.grad(lambda x: (x ** n).sum())(FLOATS[1:].astype(jnp.bfloat16)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_and_types_of_powers_of_floats(name):
    program = DERIVATIVES[name]
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (2, 3, 0, 1, 5, -1, 4, -2, 7, 1):
        for got, want in zip(jax.tree.leaves(compiled(n)), jax.tree.leaves(program(n)), strict=True):
            assert got.dtype == want.dtype and got.weak_type == want.weak_type, n
            np.testing.assert_allclose(*(x.astype(np.complex64) for x in (got, want)), rtol=1e-5 if (
                want.dtype.itemsize > 2) else 2e-2, atol=1e-6, err_msg=str(n))
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
def test_known_power_is_that_of_a_known_exponent(dtype):
    x = jnp.asarray([3, 0, 1, 7, -2]).astype(dtype)
    for n in (0, 1, 2, 31, 64, 100, 127):
        assert repr(known_power(x, jnp.int8(n), 8)) == repr(x ** n)
