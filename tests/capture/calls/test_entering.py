"""`capture.calls.entering`: library functions that no changing size can pass are entered, and stay in the graph."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

Q = jnp.linspace(0.5, 3.5, 9)
LENGTHS = (10, 13, 16, 7, 64)

ENTERED = {
    "searchsorted": lambda a: jnp.searchsorted(a, Q),
    "interp": lambda a: jnp.interp(Q, a, jnp.sin(a)),
    "interp's gradient": lambda a: jax.grad(lambda b: jnp.interp(Q, a, b).sum())(jnp.sin(a)),
    "interp, mapped": lambda a: jax.vmap(lambda s: jnp.interp(Q * s, a, jnp.sin(a)))(jnp.arange(3.0)),
    "searchsorted, sorted by another": lambda a: jnp.searchsorted(-a, Q, side="right", sorter=jnp.argsort(-a)),
    "histogram": lambda a: jnp.histogram(Q, a)[0],
    "choice": lambda a: jax.random.choice(jax.random.key(0), a.shape[0], (3,), p=a / a.sum()),
    "irfftn": lambda a: jnp.fft.irfftn(jnp.fft.rfftn(a[None]), s=(1, a.shape[0])),
    "geomspace": lambda a: jnp.geomspace(1, 10, a.shape[0]) * a,
    "hanning": lambda a: jnp.hanning(a.shape[0]) * a,
    "setdiff1d": lambda a: jnp.setdiff1d(a, Q, size=3, fill_value=0),
}


def captures(fn, arrays):
    dynacomp.reset()
    compiled, found = dynacomp.jit(fn, backend="eager"), []
    for a in arrays:
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5), compiled(a), fn(a))
        found.append(dynacomp.stats()["frames_captured"])
    return found


@pytest.mark.parametrize("name", ENTERED)
def test_a_library_function_that_wants_a_constant(name):
    assert captures(ENTERED[name], [jnp.arange(n * 1.0) for n in LENGTHS]) == [1] + [2] * (len(LENGTHS) - 1)
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["frames_eager"] == {}


def test_what_it_finds_in_special_values():
    for side in ("left", "right"):
        def places(a, side=side):
            return jnp.searchsorted(a, jnp.array([jnp.nan, -jnp.inf, 0.0, -0.0, 2.0, jnp.inf]), side=side)

        arrays = [jnp.sort(jnp.array([*range(n), jnp.nan, -jnp.inf, jnp.inf, -0.0])) for n in (2, 5, 9)]
        assert captures(places, arrays) == [1, 2, 2]


def test_one_that_would_get_an_entry_a_size_is_not_entered():
    """`matrix_power` halves its exponent, and asks each time whether it is odd."""
    found = captures(lambda a: jnp.linalg.matrix_power(jnp.eye(2), a.shape[0]) + a[0],
                     [jnp.arange(n * 1.0) for n in LENGTHS * 2])
    assert found[-1] == found[4] and dynacomp.stats()["breaks"] == {"size_constant": 1}


def test_an_exception_of_one_is_the_programs():
    compiled = dynacomp.jit(lambda a: jnp.split(a, 3)[0].sum() + a.sum())
    for n in (6, 9, 7, 12, 8):
        a = jnp.arange(n * 1.0)
        if n % 3:
            with pytest.raises(ValueError, match="equal division"):
                compiled(a)
        else:
            assert compiled(a) == jnp.split(a, 3)[0].sum() + a.sum()


WITH_NUMBERS = {
    "interp": lambda x, k: jnp.interp(k * 0.5, x, x * 2),
    "vander": lambda x, k: jnp.vander(x, k),
    "diff": lambda x, k: jnp.diff(x, n=k % 2),
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_number_is_no_constant_where_a_size_is_in_the_way(name):
    """And what comes back from a function that JAX compiles is a new array, though it is entered."""
    dynacomp.reset()
    program = WITH_NUMBERS[name]
    compiled = dynacomp.jit(program, backend="eager")
    for n, k in zip((5, 4, 7, 6, 9, 3, 8, 5, 10, 4), (2, 3, 4, 5, 7, 6, 2, 4, 9, 3)):
        x = jnp.arange(n * 1.0)
        got = compiled(x, k)
        np.testing.assert_allclose(got, program(x, k), rtol=1e-5)
        assert got is not x
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]
