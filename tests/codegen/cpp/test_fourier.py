"""Fourier transforms inside the native call, against eager JAX."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.numpy import fft

from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import agree, same_as_eager, seams


def arrays(seed):
    drawn = np.random.RandomState(seed)
    return drawn.randn(3, 5, 30).astype(np.float32), drawn.randn(3, 5, 24).astype(np.float32).view(np.complex64)


def transforms(x, z):
    return [
        fft.fft(x), fft.ifft(z), fft.rfft(x), fft.irfft(z), fft.irfft(z, n=7), fft.fft2(z), fft.rfft2(x), fft.irfft2(z),
        fft.fftn(x), fft.fft(z, axis=0), fft.fft(x, n=22), fft.fftshift(fft.fft(x * 2) + 1), fft.fft(x[0, :1, :1]),
        fft.irfft(fft.rfft(x) * jnp.exp(1j * jnp.arange(16))),
    ]


@pytest.mark.medium
def test_one_native_call():
    program = compiled(transforms, *arrays(0))
    assert not program.externs
    for seed in (0, 1):
        for got, want in zip(program(*arrays(seed)), transforms(*arrays(seed)), strict=True):
            agree(got, want, scale=10)


def test_references():
    same_as_eager(lambda *args: transforms(*args)[:8], *arrays(2), scale=10)


def test_lengths_that_are_for_xla():
    assert seams(fft.fft, np.ones(67, np.float32)) == ["a Fourier transform of 67 times so many"]
    assert not seams(fft.fft, np.ones(61 * 4, np.float32))
