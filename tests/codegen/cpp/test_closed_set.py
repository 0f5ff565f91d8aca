"""Primitives that become others, compiled: one translation unit, no call of XLA, against eager JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import agree

X = np.random.RandomState(0).randn(6, 21).astype(np.float32)
I8 = np.random.RandomState(1).randint(-99, 99, (21, 40)).astype(np.int8)


def everything(x, i):
    words = lax.bitcast_convert_type(x, np.uint8)
    return [
        jnp.matmul(x > 0, i > 0),
        lax.dot_general(x, i, (((1,), (0,)), ((), ()))),
        jnp.matmul(i.T, i, preferred_element_type=np.float32),
        lax.reduce(i, np.int8(-1), lax.bitwise_and, (0,)),
        lax.reduce(i.astype(np.int32), np.int32(0), lax.bitwise_or, (1,)),
        lax.reduce(x, np.float32(3), jnp.logaddexp, (1,)),
        lax.reduce_window(x, np.float32(1), lambda a, b: a * b + a + b, (3, 3), (2, 2), "SAME"),
        lax.cumlogsumexp(x, axis=1),
        lax.bessel_i0e(x * 9), lax.bessel_i1e(x * 9),
        words, lax.bitcast_convert_type(words, np.float32),
        *lax.approx_min_k(x, 3),
        jax.jvp(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"), (x,), (x * 2,))[1],
    ]


def complex_numbers(z, x):
    product = z.T @ (z * x)
    return [
        jnp.exp(z) / (z + 2j), jnp.abs(z).sum(1), z[::-1, 1:] * jnp.conj(z[:, 1:]), product,
        jnp.sqrt(z) + x, jnp.cumsum(z, 1), z.sum(), jnp.where(x > 0, z, 1j), z.real, z.imag.T, z[0, 0], z,
        lax.complex(x, x + 1), jnp.prod(z, 1), jnp.sort(z, axis=1),
    ]


@pytest.mark.medium
def test_complex_numbers_in_one_native_call():
    make = lambda seed: (np.random.RandomState(seed).randn(6, 42).astype(np.float32).view(np.complex64), X + seed)
    program = compiled(complex_numbers, *make(0))
    assert not program.externs
    for seed in (0, 1):
        for got, want in zip(program(*make(seed)), complex_numbers(*make(seed)), strict=True):
            agree(got, want, scale=10)


@pytest.mark.medium
def test_one_native_call():
    program = compiled(everything, X, I8)
    assert not program.externs
    for seed in (0, 1):
        x = np.random.RandomState(seed).randn(*X.shape).astype(np.float32)
        for got, want in zip(program(x, I8), everything(x, I8), strict=True):
            agree(got, want, scale=4)


def loops(z):
    step = lambda i, s: s * s * 0.5 + z[0] * i
    inner = lax.scan(lambda s, x: (s + x, s * x), z[0] * 0, z)
    return lax.fori_loop(0, 30, step, z[1] * 0.1), *inner


@pytest.mark.medium
def test_loops_over_complex_state():
    z = (np.random.RandomState(3).randn(20, 6).astype(np.float32) * 0.3).view(np.complex64)
    program = compiled(loops, z)
    assert not program.externs
    for got, want in zip(program(z), loops(z), strict=True):
        agree(got, want, scale=10)
