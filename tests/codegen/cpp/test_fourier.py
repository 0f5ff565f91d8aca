"""Fourier transforms inside the native call, against eager JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.numpy import fft

import dynacomp
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


@pytest.mark.parametrize("axis", (0, 1))
def test_lines_in_step_and_the_rest(axis):
    """As many lines as no register divides, along memory and across it: each is what it is alone."""
    x = np.random.RandomState(3).randn(37, 37).astype(np.float32)
    program = compiled(lambda x: (fft.ifft(fft.fft(x, axis=axis), axis=axis), fft.rfft(x), fft.irfft(x)), x)
    assert not program.externs
    for got, want in zip(program(x), (x + 0j, fft.rfft(x), fft.irfft(x)), strict=True):
        agree(got, want, scale=10)


def four(x, z, fft=fft):
    return fft.fft(z), fft.ifft(z), fft.rfft(x), fft.irfft(z[..., :x.shape[-1] // 2 + 1], x.shape[-1])


@pytest.mark.medium
@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", (1, 2, 6, 45, 64, 121, 256, 390, 1000, 4096, 2 ** 15))
def test_lengths_against_float64(n):
    """One line, fewer than a register has lanes, and more: no error over twice eager's."""
    drawn = np.random.RandomState(n)
    lines = [(drawn.randn(k, n), drawn.randn(k, n) + 1j * drawn.randn(k, n)) for k in (1, 3, 17)]
    narrow = [(np.float32(x), np.complex64(z)) for x, z in lines]
    run = lambda *lines: [four(*pair) for pair in lines]
    program = compiled(run, *narrow)
    assert not program.externs
    exact = jax.tree.leaves([four(*pair, np.fft) for pair in lines])
    for got, eager, want in zip(program(*jax.tree.leaves(narrow)), jax.tree.leaves(run(*narrow)), exact, strict=True):
        ours, theirs = (np.sqrt(np.mean(abs(np.asarray(y) - want) ** 2)) for y in (got, eager))
        assert ours <= 2 * theirs + 1e-7 * abs(want).max()


def test_references():
    same_as_eager(lambda *args: transforms(*args)[:8], *arrays(2), scale=10)


def test_lengths_that_are_for_xla():
    assert seams(fft.fft, np.ones(67, np.float32)) == ["a Fourier transform of 67 times so many"]
    assert not seams(fft.fft, np.ones(61 * 4, np.float32))


@pytest.mark.parametrize("part", (lambda x: x[:len(x) // 2], lambda x: x[:min(8, len(x))]))
def test_lengths_that_are_made_of_sizes_at_a_seam(part):
    """XLA's part of the program is told the size of which the length is half: KeyError before."""
    dynacomp.reset()
    transform = dynacomp.jit(lambda x: abs(fft.rfft(part(x))) + 1)
    for n in (9, 10, 12, 13, 40, 9):
        x = jnp.arange(1.0, n + 1)
        agree(transform(x), abs(fft.rfft(part(x))) + 1, scale=10)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and set(stats["regions"]) == {"cpp"} and not stats["breaks"]
