"""Functions of JAX where sizes are symbolic: one entry for all of them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def squeezed(x):
    return jnp.squeeze(x[:, None] * 2), jnp.squeeze(x[None], axis=0).shape


def scanned(x):
    return jax.lax.scan(lambda c, _: (c * 1.5, c), 1.0, length=x.shape[0])


def scanned_without_names(x):
    """As Ninjax calls it: it was a break, with all that the loop is made of alive."""
    return jax.lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, x, x.shape[0], True, 1)


def counted(x):
    return jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, 0.0)


def convolved(x):
    return jnp.convolve(x, jnp.asarray([1.0, 2.0])), jnp.correlate(x, x[:2], mode="same")


def convolved_with_another(x):
    return [jnp.convolve(x, x * 2, mode=mode) for mode in ("full", "same", "valid")]


def permuted(x):
    key, table = jax.random.key(3), x[:, None] * jnp.ones(3)
    return (jax.random.permutation(key, x), jax.random.permutation(key, len(x)),
            jax.random.permutation(key, table), jax.random.permutation(key, table.T, 1, independent=True),
            jax.random.choice(key, x, (2,), replace=False))


@pytest.mark.parametrize("program", [
    squeezed, scanned, scanned_without_names, counted, convolved, convolved_with_another, permuted])
def test_one_entry_for_each_length(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (5, 7, 3, 8, 6, 5):
        x = jnp.linspace(-1.0, 1.0, n)
        for got, want in zip(jax.tree.leaves(compiled(x)), jax.tree.leaves(program(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert getattr(got, "dtype", None) == getattr(want, "dtype", None)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("program", [
    lambda x: jnp.squeeze(x, 0), lambda x: jax.lax.fori_loop(3, 1, lambda i, c: c + 1, x),
    lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x)])
def test_known_sizes_are_as_jax_has_them(program):
    for x in (jnp.ones((1,)), jnp.ones((1, 2))[:, 0]):
        assert repr(dynacomp.jit(program, backend="eager")(x)) == repr(program(x))


def test_a_permutation_sorts_as_often_as_jax():
    """Beyond 1,625 elements twice: an entry for each number of rounds."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda key, x: jax.random.permutation(key, x), backend="eager")
    for n in (1_000, 1_500, 1_625, 1_626, 5_000, 3_000, 900):
        key, x = jax.random.key(n), jnp.arange(n)
        assert (compiled(key, x) == jax.random.permutation(key, x)).all()
    assert dynacomp.stats()["frames_captured"] == 3 and not dynacomp.stats()["breaks"]


ARANGES = {
    "of a float": lambda n, k: jnp.arange(n * 1.0),
    "steps": lambda n, k: jnp.arange(0, n / 4, 0.25),
    "any step": lambda n, k: jnp.arange(0, n * k, k),
    "from": lambda n, k: jnp.arange(k, 5.5),
    "down": lambda n, k: jnp.arange(5.5, k, -0.3),
    "whole numbers": lambda n, k: jnp.arange(0, k * 7, dtype=int),
    "half": lambda n, k: jnp.arange(k, 5.5, 0.3, dtype=jnp.float16),
    "of NumPy": lambda n, k: jnp.arange(np.float32(k), 5.5, 0.3),
    "nothing": lambda n, k: jnp.arange(k, 0.0),
    "to a size": lambda n, k: jnp.arange(0.5, n),
    "steps to a size": lambda n, k: jnp.arange(0, n, 0.25, jnp.bfloat16),
    "down from a size": lambda n, k: jnp.arange(n, 2.5, -1),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ARANGES)
def test_arange_of_floats_that_change(name, wide):
    with jax.enable_x64(wide):
        dynacomp.reset()
        compiled = dynacomp.jit(lambda x, k: (x + 1, ARANGES[name](x.shape[0], k)), backend="eager")
        for n, k in ((10, 0.5), (13, 0.3), (16, 0.7), (7, 0.25), (29, 1.3), (33, 2.0)):
            got, want = compiled(jnp.ones(n), k)[1], ARANGES[name](n, k)
            assert (got.shape, got.dtype, got.weak_type) == (want.shape, want.dtype, want.weak_type)
            np.testing.assert_allclose(got, want, rtol=1e-6)
        stats = dynacomp.stats()
        assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


def test_arange_by_no_step_raises():
    for k in (0.5, 0.25, 0.0, 0.125):
        try:
            want = len(jnp.arange(0, 1, k))
        except ZeroDivisionError:
            want = "ZeroDivisionError"
        assert length_or_error(k) == want


@dynacomp.jit
def length_or_error(k):
    try:
        return len(jnp.arange(0, 1, k))
    except ZeroDivisionError:
        return "ZeroDivisionError"


def test_a_permutation_of_one_element_and_of_what_is_no_key():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: jax.random.permutation(jax.random.key(1), x.shape[0] // 2), backend="eager")
    for n in (10, 7, 3, 2, 1, 9):
        assert (compiled(jnp.ones(n)) == jax.random.permutation(jax.random.key(1), n // 2)).all()
    said = []
    for fn in (jax.random.permutation, dynacomp.jit(jax.random.permutation, dynamic=True)):
        with pytest.raises(TypeError) as error:
            fn(jnp.ones(3), jnp.arange(5))
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("way", [lambda f: f, jax.jit, jax.vmap])
def test_the_dtype_of_an_array_is_that_of_its_numbers(way):
    """NumPy warns of it, in each call."""
    def typed(x):
        return jnp.ones(2, np.dtype(x)) * np.dtype(x.astype(jnp.int16) + 1).itemsize

    def program(x):
        return way(typed)(x)

    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 5, 7):
        x = jnp.arange(float(n))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            want, plain = program(x), len(said)
            got = compiled(x)
        assert jnp.array_equal(got, want) and got.dtype == want.dtype and len(said) == 2 * plain
    assert not dynacomp.stats()["breaks"]
