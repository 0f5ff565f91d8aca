"""Updates where a mask says so: `x.at[x < 0].set(0)` is one node, and what eager JAX makes of it."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.array([-1.5, -0.0, 2.0, jnp.nan])
ARRAYS = [X, jnp.arange(4) - 2, jnp.arange(5, dtype=jnp.uint8), jnp.array([True, False]), X.astype(jnp.bfloat16),
          jnp.zeros(0), X.reshape(2, 2), X + 2j]
VALUES = [2, -1.5, True, 300, jnp.int32(3), np.float32(1.5), jnp.inf, 2 + 0j]


def described(run, *args):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = run(*args)
            found = found.dtype, found.weak_type, found.shape, np.asarray(found).tobytes()
        except Exception as error:
            found = type(error), str(error)
    return found, {str(w.message) for w in said if w.category is FutureWarning}


@pytest.mark.parametrize("name", ["set", "add", "subtract", "multiply", "min", "max"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_is_what_eager_jax_has(name, value):
    def program(x):
        return getattr(x.at[x != 2], name)(value)

    for x in ARRAYS:
        dynacomp.reset()
        compiled = dynacomp.jit(program, backend="eager")
        want = described(program, x)
        assert described(compiled, x) == want == described(compiled, x)


def test_sizes_and_numbers_change():
    def program(x, n):
        rows = x.at[(x > 0).any(1)].set(x.sum())
        return x.at[x > n].set(n), x.at[jnp.isnan(x)].add(x.shape[0]), rows, {"a": x.at[x < 0].multiply(2)}

    check_one_graph(program, *((jnp.arange(2.0 * n).reshape(n, 2) - 3, n * 0.5) for n in (2, 3, 4, 5)), captures=2)


def test_where_eager_jax_has_to_look_at_the_mask():
    def program(x):
        return x.at[x > 0].set(x[x > 0] * 2), x.at[0, x[0] > 0].set(3.0), x.at[x > 0].get()

    compiled = dynacomp.jit(program, backend="eager")
    for n in (2, 3, 4):
        x = jnp.arange(2.0 * n).reshape(n, 2)
        assert all(map(jnp.array_equal, compiled(x), program(x)))


def test_transformations_refuse_as_they_do():
    def program(x):
        return x.at[x > 0].set(1.0)

    compiled = dynacomp.jit(program, backend="eager")
    inside = dynacomp.jit(lambda x: jax.vmap(program)(x), backend="eager")
    compiled(X)
    for refused in (jax.jit(compiled), jax.vmap(compiled), inside):
        with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
            refused(X.reshape(2, 2))


def test_derivatives_do_not_see_what_the_mask_leaves_out():
    def program(x, w):
        return (x.at[x > 0].multiply(w) + x.at[x > 0].add(w)).sum()

    compiled = dynacomp.jit(program, backend="eager")
    compiled(X[:3], 2.0)
    for w in (2.0, 3.0, jnp.inf):
        want = jax.grad(lambda x, w=w: program(x, w))(X[:3])
        assert jnp.array_equal(jax.grad(lambda x, w=w: compiled(x, w))(X[:3]), want, equal_nan=True)


PLACES = {"row": lambda x, m, v, row: x.at[0, m].set(v), "last": lambda x, m, v, row: x.at[-1, m].add(2),
          "column": lambda x, m, v, row: x.T.at[m, 1].multiply(v), "axes": lambda x, m, v, row: x.at[:, m].min(v),
          "far": lambda x, m, v, row: x.at[7, m].set(v), "rows": lambda x, m, v, row: x.T.at[m].set(row),
          "before": lambda x, m, v, row: x.T.at[m, :].add(row),
          "apart": lambda x, m, v, row: x[None].at[0, :, m].set(v)}


@pytest.mark.parametrize("place", PLACES)
def test_a_mask_beside_numbers_and_slices(place):
    """Each of these broke the graph in every call."""
    def program(x, m, v, row):
        return PLACES[place](x, m, v, row) * 2

    check_one_graph(program, *((jnp.ones((2, n)), jnp.arange(n) % 2 == 0, n * 0.5, jnp.arange(2.0))
                               for n in (3, 4, 5, 6)), captures=2)


@pytest.mark.parametrize("program", [
    lambda x, m: x.at[0, m].set(1.0), lambda x, m: x.at[m[:2]].set(x[0, :2]), lambda x, m: x.at[0, 0, m].set(1.0),
    lambda x, m: x.at[True, m].set(1.0)], ids=["size", "values", "axes", "bool"])
def test_what_eager_jax_refuses(program):
    x, m = jnp.ones((2, 5)), jnp.arange(4) % 2 == 0
    assert described(dynacomp.jit(program, backend="eager"), x, m) == described(program, x, m)
    assert issubclass(described(program, x, m)[0][0], Exception)


OUTSIDE = {
    "grad": lambda x, m, v: jax.value_and_grad(
        lambda x, v: (x.at[m].set(v) ** 2 + x.at[m].add(v * v)).sum(), (0, 1))(x, v),
    "vmap": lambda x, m, v: jax.vmap(lambda k: x.at[m].set(k))(x),
    "jit": lambda x, m, v: jax.jit(lambda r: r.at[m].set(v))(x),
    "scan": lambda x, m, v: jax.lax.scan(lambda c, k: (c.at[m].add(k), c.sum()), x, x),
    "hessian": lambda x, m, v: jax.hessian(lambda x: (x.at[m].set(v) ** 3).sum())(x)}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_mask_from_outside_a_body(name):
    """It is an array there, of which eager JAX knows the places: the graph broke, and the body ran op by op."""
    def program(x, m, v):
        return OUTSIDE[name](x, m, v)

    check_one_graph(program, *((jnp.arange(float(n)), jnp.arange(n) % 2 == 0, jnp.float32(n)) for n in (3, 4, 5, 6)),
                    captures=2)


@pytest.mark.parametrize("program", [
    lambda x: jax.vmap(lambda row: row.at[row > 1].set(0.0))(x), lambda x: jax.lax.scan(
        lambda c, row: (c.at[row > 1].add(1.0), c), x[0], x)], ids=["vmap", "scan"])
def test_a_mask_that_a_body_computes_is_refused(program):
    x = jnp.arange(6.0).reshape(2, 3)
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
        dynacomp.jit(program, backend="eager")(x)
