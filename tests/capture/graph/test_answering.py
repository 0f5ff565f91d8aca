"""Tracers that stand for numbers of Python's and answer what those would."""

import jax
import jax.numpy as jnp
import pytest

from dynacomp.capture.graph.answering import Answering

X = jnp.arange(3.0)


def test_answers_are_those_that_are_known():
    number = Answering("t", {("gt", "t", 0.5): False, ("eq", ("sub", 1.0, "t"), 0.0): True, "t": True})

    def f(t):
        t = number(t)
        assert not t > 0.5 and 1.0 - t == 0.0 and t
        return t * X

    assert [e.primitive.name for e in jax.make_jaxpr(f)(0.7).eqns][-1] == "mul"
    assert jnp.array_equal(jax.jit(f)(2.0), 2.0 * X)


def test_what_is_not_known_is_left_to_jax():
    number = Answering("t")
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.make_jaxpr(lambda t: 1 if number(t) < 3 else 2)(0.7)
    assert jax.make_jaxpr(lambda t: number(t) < X)(0.7).out_avals[0].dtype == bool


def test_two_numbers_are_compared():
    truths = {("lt", "a", "b"): True}
    a, b = Answering("a", truths), Answering("b", {})
    assert jax.make_jaxpr(lambda x, y: x if a(x) < b(y) else y)(1.0, 2.0).jaxpr.outvars[0].aval.weak_type


@pytest.mark.parametrize("how", [jax.grad, jax.vmap, lambda f: lambda x: jax.jvp(f, (x,), (x,))],
                         ids=["grad", "vmap", "jvp"])
def test_tracers_of_transformations_answer_too(how):
    number = Answering("t", {("gt", "t", 0.5): True})
    x = jnp.ones(3) if how is jax.vmap else 1.0
    assert jax.tree.map(jnp.shape, how(lambda t: number(t) * 2 if number(t) > 0.5 else t)(x)) == jax.tree.map(
        jnp.shape, how(lambda t: t * 2)(x))


def test_arrays_answer_for_themselves():
    assert Answering("t", {("gt", "t", 0.5): True})(X) is X
