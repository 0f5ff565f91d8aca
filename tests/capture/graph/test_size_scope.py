"""What is known of sizes: bounds decide without a note, values decide and are noted, equal sizes become one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import InconclusiveDimensionOperation

import dynacomp
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import canonical


@pytest.fixture
def scope():
    made = Scope()
    made.symbol("n", 6)
    made.symbol("m", 4)
    return made


def noted(scope):
    return [str(r) for r in scope.relations]


def test_bounds_decide_without_a_note(scope):
    n, m = scope.symbol("n"), scope.symbol("m")
    assert scope.is_nonnegative(n) and scope.is_nonnegative(n * m - 1) and not scope.is_nonnegative(-n)
    assert not scope.is_zero(n) and not scope.is_zero(n + m)
    scope.bound("n", 5, 8)
    assert scope.is_nonnegative(n - 5) and not scope.is_nonnegative(n - 9) and not scope.is_zero(n - 9)
    assert noted(scope) == []


def test_values_decide_and_are_noted_once(scope):
    n, m = scope.symbol("n"), scope.symbol("m")
    assert scope.is_nonnegative(n - m) and scope.is_nonnegative(n - m) and not scope.is_nonnegative(m - n)
    assert not scope.is_zero(n - m)
    assert len(noted(scope)) == 3 and all(text.endswith(" 0") for text in noted(scope))
    assert {(r.kind, r.holds) for r in scope.relations} == {("ge", True), ("ge", False), ("eq", False)}


def test_sizes_that_are_found_equal_are_one_from_then_on(scope):
    n, k = scope.symbol("n"), scope.symbol("k", 6)
    assert scope.is_zero(n - k) and canonical(k) == canonical(n)
    before = noted(scope)
    assert scope.is_zero(k * 2 - n - k) and scope.is_zero(n - k) and noted(scope) == before


def test_multiples_that_are_equal_are_of_equal_sizes(scope):
    n, k = scope.symbol("n"), scope.symbol("k", 3)
    assert scope.is_zero(4 * k - 2 * n) and canonical(n) == canonical(2 * k)
    assert scope.is_zero(2 * n - 12) and canonical(k * n) == 18


def test_a_size_whose_double_is_a_constant_is_one():
    """An operation of the constant and one of the double did not fit together: XLA had it, or eager JAX."""
    table = jnp.arange(12.0)

    def program(x, k):
        y = jnp.concatenate([x, x])
        if y.shape[0] == 12:
            column, rows = table[:, None], 2 * x.shape[0]
            return jnp.broadcast_to(y[:, None], (12, 3)) + column, jnp.ones((rows, 3)) * column
        z = y + k
        return (jnp.broadcast_to(z[:, None], (k.shape[0], 3)) if len(k) == 16 else z), y

    compiled = dynacomp.jit(program)
    for n in (4, 6, 5, 8, 7, 6):
        x, k = jnp.arange(n) * 0.5, jnp.ones(2 * n)
        for want, got in zip(program(x, k), compiled(x, k)):
            np.testing.assert_array_equal(got, want)
    assert dynacomp.stats()["frames_captured"] == 4 and not dynacomp.stats()["frames_eager"]


def test_equality_is_decided_only_where_it_is_asked(scope):
    n, k = scope.symbol("n"), scope.symbol("k", 6)
    assert n != k and noted(scope) == []
    with scope.decides():
        assert n == k
    assert len(noted(scope)) == 1 and scope.deciding == 0


def test_what_is_unknown_cannot_decide():
    scope = Scope()
    a = scope.symbol("a")
    with pytest.raises(InconclusiveDimensionOperation, match="not known"):
        scope.is_nonnegative(a - 5)
    assert scope.is_nonnegative(a)


def test_bounds_only_get_tighter(scope):
    scope.bound("n", 4, 20)
    scope.bound("n", 2, 30)
    assert (scope.least["n"], scope.most["n"]) == (4, 20)
    scope.bound("n", None, 10)
    assert (scope.least["n"], scope.most["n"]) == (4, 10)


def test_a_size_that_equals_another_axis_by_chance():
    """A mask of (4, 4) is broadcast to four heads as any other: JAX compares the shapes for a detour of shardings."""
    def masked(scores):
        n = scores.shape[-1]
        return jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -jnp.inf)

    dynacomp.reset()
    compiled = dynacomp.jit(masked, backend="eager")
    for n in (6, 5, 4, 7, 3):
        scores = jnp.ones((4, n, n))
        assert (compiled(scores) == masked(scores)).all()
    assert dynacomp.stats()["frames_captured"] == 2


def broadcast_in_dim(x):
    return x * 100 if x.shape[0] == 4 else x


def test_a_function_of_the_program_that_is_called_like_one_of_jax():
    """Its questions are its own: a library runs it here (`eqx.filter_jit`)."""
    program = eqx.filter_jit(broadcast_in_dim)
    compiled = dynacomp.jit(lambda x: program(x), backend="eager")
    for n in (6, 5, 4, 7):
        assert (compiled(jnp.ones(n)) == broadcast_in_dim(jnp.ones(n))).all()


BESIDE = {
    "sizes that are broadcast are all one size": lambda x: jnp.linspace(0.0, 1.0, x.shape[0]) + x[0],
    "a batch of another size than the rows": lambda x: jax.vmap(lambda v: jnp.arange(x.shape[0]) * v)(x[:2]),
    "a slice up to the end": lambda x: x + jnp.arange(16.0)[:x.shape[0]],
    "a slice of nothing": lambda x: (x[:x.shape[0] // 4 * 4].reshape(-1, 4).sum(0), x[x.shape[0] // 4 * 4:]),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_jax_asks_beside_the_point_guards_nothing(name):
    dynacomp.reset()
    compiled = dynacomp.jit(BESIDE[name], backend="eager")
    for n in (6, 5, 16, 4, 2, 3, 8, 9):
        for got, want in zip(*map(jax.tree.leaves, (compiled(jnp.arange(n * 1.0)), BESIDE[name](jnp.arange(n * 1.0))))):
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 2
