"""Chex: dataclasses made in compiled code, and assertions that ask whether JAX traces."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

chex = pytest.importorskip("chex")
X = jnp.arange(3.0)


@chex.dataclass
class State:
    a: Any
    b: Any = 2


@chex.dataclass(frozen=True, mappable_dataclass=False)
class Doubled:
    a: Any

    def __post_init__(self):
        object.__setattr__(self, "a", self.a * 2)


def compiled(fn):
    return dynacomp.jit(fn, backend="eager")


@pytest.mark.parametrize("fn", [
    lambda x: State(a=1),
    lambda x: State(a=x).__dict__,
    lambda x: (list(State(a=x)), dict(State(a=x, b=x)), State(a=x)["a"]),
    lambda x: State(a=x).replace(b=3),
    lambda x: State.from_tuple((x, 4)).to_tuple(),
    lambda x: jax.tree.map(lambda v: v * 2, State(a=x, b=x)),
    lambda x: (Doubled(a=x), Doubled(a=x).replace(a=x)),
])
def test_dataclasses_made_in_compiled_code_hold_their_fields(fn):
    expected, found = fn(X), compiled(fn)(X)
    assert repr(found) == repr(expected) and type(found) is type(expected)


def test_an_init_of_a_library_fills_the_programs_object():
    distrax = pytest.importorskip("distrax")

    class Mine(distrax.Normal):
        def __init__(self, loc, scale):
            super().__init__(loc, scale)
            self.own = 3

    def fn(x):
        made = Mine(x, 1.0)
        return made.own, made.loc, made.log_prob(0.5)

    assert repr(compiled(fn)(X)) == repr(fn(X))


def test_traces_are_counted_where_jax_traces_only():
    @chex.assert_max_traces(n=1)
    def plain(x):
        return x * 2

    fn = compiled(lambda x: plain(x) + plain(x + 1))
    for x in (X, X[:2]):
        assert fn(x).shape == x.shape

    @chex.assert_max_traces(n=2)
    def loss(x):
        return (x ** 2).sum()

    fn = compiled(lambda x: jax.grad(loss)(x))
    assert [fn(X).shape for _ in range(2)] == [(3,), (3,)]
    with pytest.raises(AssertionError, match="traced > 2 times"):
        fn(X)


def test_classes_are_decorated_once():
    def fn(x):
        frozen = chex.dataclass(frozen=True)

        @frozen
        class Made:
            a: Any

        return Made(a=x).a

    assert jnp.array_equal(compiled(fn)(X), X)


def test_making_a_dataclass_again_breaks_no_graph():
    State(a=X)
    dynacomp.reset()
    compiled(lambda x: State(a=x).a + 1)(X)
    assert not dynacomp.stats()["breaks"]


def test_assertions_tell_numpy_arrays_from_others():
    def fn(x):
        try:
            chex.assert_type(x, np.float32)
        except AssertionError as error:
            return str(error)

    wide = np.ones(3)
    assert compiled(fn)(wide) == fn(wide) is not None


def test_fakes_last_as_long_as_their_block():
    def fn(x):
        with chex.fake_pmap():
            inside = jax.pmap(lambda v: v * 2)(x)
        return inside, jax.pmap is real

    real, rows = jax.pmap, jnp.ones((2, 2))
    assert repr(compiled(fn)(rows)) == repr(fn(rows)) and jax.pmap is real


def test_checks_wait_for_their_results():
    def fn(x):
        @chex.chexify
        @jax.jit
        def safe(x):
            chex.assert_tree_all_finite(x)
            return x + 1

        safe(jnp.ones(2))
        safe.wait_checks()
        with pytest.raises(AssertionError):
            safe(x)
            safe.wait_checks()
        return True

    assert compiled(fn)(jnp.array([jnp.nan, 3.0]))


def test_assertions_about_content_are_about_the_content():
    def fn(x):
        try:
            chex.assert_trees_all_close(x * 2, 2.0)
        except AssertionError:
            return "differ"
        try:
            chex.assert_shape(x, (2,))
        except AssertionError as error:
            return str(error)

    for x in (jnp.ones(3), X):
        assert compiled(fn)(x) == fn(x)


def test_checks_around_a_function_made_in_compiled_code():
    def fn(x):
        @jax.jit
        def square(x):
            chex.assert_tree_all_finite(x)
            return jnp.square(x)

        return chex.chexify(square, async_check=False)(x)

    assert jnp.array_equal(compiled(fn)(X), X ** 2)
