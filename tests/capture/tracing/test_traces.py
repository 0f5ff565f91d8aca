"""What a trace that fails asks of the next attempt: sizes, constants, arrays to see; or what the program is told."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax._src import test_util

import dynacomp
from dynacomp.capture.tracing.traces import jaxpr_of
from dynacomp.notices import told

SHIFT = jnp.arange(3.0)


@pytest.mark.parametrize("fn", [
    lambda x, n: x.at[:n].set(0.0), lambda x, n: x.at[-n:].add(1.0), lambda x, n: x.at[n - 2:n].max(5.0),
    lambda x, n: (x.at[n].set(1.0).at[-n].set(2.0), x.at[:n].get().sum()),
    lambda x, n: jax.grad(lambda v: (v.at[:n].set(0.0) ** 2).sum())(x),
    lambda x, n: jax.lax.fori_loop(0, 3, lambda i, c: c.at[n:].add(1.0), x),
    lambda x, n: jnp.zeros((40, 40), bool).at[:n, :n].set(True) & (x > 3),
])
def test_numbers_that_earlier_calls_were_given_become_sizes(fn):
    """`x.at[:n]` takes any number; the `set` after it wants a size."""
    dynacomp.reset()
    x, compiled = jnp.arange(40.0), dynacomp.jit(fn, backend="eager")
    for n in (5, 6, 9, 12, 17, 20, 19, 11):
        for got, want in zip(jax.tree.leaves(compiled(x, n)), jax.tree.leaves(fn(x, n)), strict=True):
            np.testing.assert_allclose(got, want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]


def refused(fn, x, n):
    try:
        return fn(x * 2, n)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("fn", [
    lambda x, n: x.reshape(n, 4), lambda x, n: jnp.reshape(x, (len(x) // 4, 4)), lambda x, n: x.reshape(n // 2, -1),
    lambda x, n: jax.jit(lambda v: v.reshape(4, n))(x)])
def test_reshapes_that_do_not_fit_are_refused(fn):
    """JAX compares numbers of elements only where all of them are numbers."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, n: refused(fn, x, n), backend="eager")
    for size, n in ((12, 3), (16, 4), (20, 5), (12, 4), (13, 3), (24, 6), (14, 4), (28, 7)):
        got, want = compiled(jnp.arange(float(size)), n), refused(fn, jnp.arange(float(size)), n)
        assert repr(got) == repr(want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] and stats["breaks"].keys() == {"raises"}


def test_reshapes_that_fit_are_captured_once_for_all_sizes():
    compiled = dynacomp.jit(lambda x, n: (x * 2).reshape(n, 4), backend="eager")
    dynacomp.reset()
    for n in (3, 4, 5, 6, 9):
        assert compiled(jnp.arange(4.0 * n), n).shape == (n, 4)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


@pytest.mark.medium
def test_what_fails_for_arrays_of_jax_alone_has_not_failed():
    """The call was traced; the program gives it an array of NumPy's."""
    def f(x, y):
        exactly = test_util.numpy_with_mpmath(mpmath, extra_prec=1).expm1
        try:
            return exactly(y), x + 1
        except AttributeError as error:
            return x, str(error)

    compiled = dynacomp.jit(f, backend="eager")
    for n in (2, 3):
        args = jnp.ones(n), np.ones(n)
        assert repr(compiled(*args)) == repr(f(*args))


def test_of_what_jax_says_about_a_size_one_line_is_told():
    @dynacomp.allow_in_graph
    def counted(x):
        return jnp.arange(x.shape[0] * 1.0)

    dynacomp.reset()
    compiled = dynacomp.jit(counted, backend="eager")
    for n in (3, 4, 5):
        assert compiled(jnp.ones(n)).shape == (n,)
    (reason,) = [notice.reason for notice in told()]
    assert "counted: Abstract tracer value" in reason and "\n" not in reason


def test_the_jaxpr_is_that_of_make_jaxpr():
    structs = [jax.ShapeDtypeStruct((2, 3), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32, weak_type=True),
               jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype)]

    def fn(x, n, keys):
        return [jnp.tanh(x) * n + SHIFT, jax.vmap(jax.random.uniform)(keys), n]

    found, known = jaxpr_of(fn, structs), jax.make_jaxpr(fn)(*structs)
    assert str(found) == str(known) and found.out_avals == known.out_avals
    assert [a.weak_type for a in found.in_avals[:2]] == [False, True]
    assert len(found.consts) == len(known.consts)
