"""What repeats and divides arrays as often as sizes say: one entry for many sizes, also below gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def divided(x, k):
    return jnp.array_split(x, 3), jnp.array_split(jnp.stack([x, x]), 2, axis=-1)


def wrapped(x, k):
    return jnp.pad(x, (2, k), mode="wrap"), jnp.pad(x[:, None], ((k, 1), (0, 3)), mode="wrap")


PROGRAMS = {
    "resize": lambda x, k: (jnp.resize(x, (k + 2, 3)), jnp.resize(x, 2)),
    "resize to sizes": lambda x, k: jnp.resize(x[:2], (3, x.shape[0])),
    "wrap": wrapped,
    "array_split": divided,
    "fft": lambda x, k: jnp.abs(jnp.fft.fft(x, n=k + 4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("outside", [False, True], ids=["plain", "grad"])
def test_one_entry_for_many_sizes(name, outside):
    program = PROGRAMS[name]

    def summed(x, k):
        return sum((leaf * jnp.arange(leaf.size).reshape(leaf.shape)).sum() for leaf in jax.tree.leaves(program(x, k)))

    dynacomp.reset()
    fn = jax.grad(summed) if outside else program
    compiled = dynacomp.jit(lambda x, k: fn(x, k), backend="eager")
    for i, n in enumerate((4, 5, 6, 3, 9, 2)):
        x = jnp.linspace(-1.0, 1.0, n)
        for got, want in zip(jax.tree.leaves(compiled(x, i % 5)), jax.tree.leaves(fn(x, i % 5)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            assert got.dtype == want.dtype and got.weak_type == want.weak_type
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"]


def test_how_many_parts_is_a_constant_of_the_entry():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, k: jnp.array_split(x, k + 2), backend="eager")
    for i, n in enumerate((4, 5, 6, 7, 3, 9)):
        got = compiled(jnp.arange(n), i % 2)
        assert [part.tolist() for part in got] == [part.tolist() for part in jnp.array_split(jnp.arange(n), i % 2 + 2)]
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 4 and not stats["breaks"]


@pytest.mark.parametrize("call", [
    lambda x, k: jnp.pad(x[:0], (0, k), mode="wrap"), lambda x, k: jnp.resize(x, (k, -1)),
    lambda x, k: jnp.array_split(x, k - k), lambda x, k: jnp.resize(x[:0], (k, 2)), lambda x, k: jnp.split(x, k)])
def test_what_jax_says_of_sizes_that_do_not_fit(call):
    compiled = dynacomp.jit(call, backend="eager")
    for k in (2, 3, 5, 2):
        x, found = jnp.arange(k + 2.0), []
        for fn in (call, compiled):
            try:
                found.append(repr(fn(x, k)))
            except Exception as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1]
