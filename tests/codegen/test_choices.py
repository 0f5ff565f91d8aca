"""Of branches with something for XLA in one, the one that is chosen runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen import choices
from dynacomp.codegen.xla import as_function

X = jnp.arange(1.0, 4.0)
CALLED = []


def told(x):
    CALLED.append(np.asarray(x).tolist())
    return np.asarray(x) * 10


def checked(x, limit):
    """A check as libraries make it: Python is called where it fails, else the array goes on."""
    of = jax.ShapeDtypeStruct(x.shape, x.dtype)
    x = jax.lax.cond(x.sum() > limit, lambda x: jax.pure_callback(told, of, x), lambda x: x, jnp.sin(x))
    return x * 2 + 1


def several(x, limit):
    """More than one result, in another order than the operands, of several branches."""
    of = jax.ShapeDtypeStruct(x.shape, x.dtype)
    index = jnp.clip(x.sum().astype(int) - limit, -2, 5)
    a, b = jax.lax.switch(index, [
        lambda x, y: (y, x), lambda x, y: (jax.pure_callback(told, of, x), y),
        lambda x, y: (x + 1, y * 2)], x + 1, x * 3)
    return a - b, a


@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (3, 4, 5, 6)])
@pytest.mark.parametrize("program", [checked, several])
def test_each_branch_is_right_and_calls_python_as_often_as_eager_does(program, sizes):
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in sizes:
        for limit in (100, 0, 5, 100):
            x = jnp.arange(1.0, n + 1)
            CALLED.clear()
            want, calls = jax.tree.leaves(program(x, limit)), list(CALLED)
            CALLED.clear()
            got = jax.tree.leaves(compiled(x, limit))
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)
                assert a.dtype == b.dtype and a.weak_type == b.weak_type
            assert len(calls) == len(CALLED) and np.allclose(calls, CALLED)
    assert not dynacomp.stats()["frames_eager"]


def test_xla_compiles_a_branch_when_it_is_chosen(monkeypatch):
    asked = []
    monkeypatch.setattr(choices, "as_function", lambda graph: asked.append(graph) or as_function(graph))
    compiled = dynacomp.jit(lambda x: checked(x, 100.0))
    for k in range(3):
        np.testing.assert_allclose(compiled(X + k), jnp.sin(X + k) * 2 + 1, rtol=1e-6)
    assert not asked
    np.testing.assert_allclose(compiled(X * 100), jnp.sin(X * 100) * 20 + 1, rtol=1e-5)
    assert len(asked) == 1


@pytest.mark.parametrize("donated", [(), (0,)])
def test_an_argument_that_goes_on_is_another_array(donated):
    compiled = dynacomp.jit(
        lambda x: jax.lax.cond(x.sum() > 100, lambda x: jax.pure_callback(told, x, x), lambda x: x, x),
        donate_argnums=donated)
    for _ in range(3):
        given = X + 0
        out = compiled(given)
        assert out is not given and given.is_deleted() == bool(donated)
        if not donated:
            given.delete()
        assert out.tolist() == X.tolist()


def test_the_checks_of_libraries():
    eqx, lx = pytest.importorskip("equinox"), pytest.importorskip("lineax")

    def solved(a, v):
        return lx.linear_solve(lx.MatrixLinearOperator(a), v).value

    dynacomp.reset()
    compiled = dynacomp.jit(solved)
    for n in (3, 4, 5, 3):
        a, v = jnp.eye(n) * 2 + 0.1, jnp.arange(1.0, n + 1)
        np.testing.assert_allclose(compiled(a, v), solved(a, v), rtol=1e-5)
    with pytest.raises(eqx.EquinoxRuntimeError, match="singular"):
        compiled(jnp.zeros((3, 3)), X)
    np.testing.assert_allclose(compiled(jnp.eye(3), X), X, rtol=1e-5)
