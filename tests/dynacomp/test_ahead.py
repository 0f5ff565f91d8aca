"""What `jax.jit(f)` offers besides calls is on what `dynacomp.jit(f)` returns."""

import copy
import functools

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import SingleDeviceSharding

import dynacomp
from dynacomp import ahead

X = jnp.arange(4.0)
jit = functools.partial(dynacomp.jit, backend="eager")


def scaled(x, n, *, twice=False):
    y = x
    for _ in range(n):  # JAX can trace this where n is static
        y = y * 2.0
    return y + y if twice else y


@pytest.mark.parametrize("how", [
    {"static_argnums": 1}, {"static_argnums": (1,), "static_argnames": "twice"}, {"static_argnames": ("n", "twice")},
    {"static_argnums": 1, "donate_argnums": 0}])
def test_lower_trace_and_eval_shape_are_those_of_jax_jit(how):
    ours, theirs = jit(scaled, **how), jax.jit(scaled, **how)
    named = "static_argnums" not in how
    for n, size in ((1, 3), (2, 5)):
        given, more = (jnp.ones(size), *(() if named else (n,))), ({"n": n} if named else {})
        assert ours.lower(*given, **more).as_text() == theirs.lower(*given, **more).as_text()
        assert str(ours.trace(*given, **more).jaxpr) == str(theirs.trace(*given, **more).jaxpr)
        assert ours.eval_shape(*given, **more) == theirs.eval_shape(*given, **more)
    assert ours.lower(*given, **more).compile().cost_analysis()["flops"] > 0


def test_shardings_are_told_to_jax():
    place = SingleDeviceSharding(jax.devices()[0])
    compiled = jit(lambda x: x + 1, in_shardings=place, out_shardings=place).lower(X).compile()
    assert jax.tree.leaves(compiled.output_shardings) == [place]


def test_what_jax_cannot_trace_raises_as_there_and_runs_here():
    f = jit(lambda x: x + 1 if x[0] > 0 else x - 1)
    for _ in range(3):
        with pytest.raises(jax.errors.TracerBoolConversionError):
            f.lower(X)
        assert f(X)[1] == 0


def test_attributes_of_the_function_and_of_the_object_come_first():
    def traced(x):
        return x

    traced.lower = "mine"

    class Model:
        trace = "mine"

        def __call__(self, x):
            return x * 2

    assert jit(traced).lower == "mine" and jit(traced).eval_shape(X).shape == (4,)
    model = jit(Model())
    assert model.trace == "mine" and model.eval_shape(X).shape == (4,)
    for f in (jit(scaled), model):
        assert not hasattr(f, "lowers")
        with pytest.raises(AttributeError, match="lowers"):
            assert f.lowers


def test_an_object_keeps_its_arguments_through_copies():
    class Model:
        def __call__(self, x, n):
            return scaled(x, n)

    for model in (jit(Model(), static_argnums=1), copy.copy(jit(Model(), static_argnums=1))):
        assert model.eval_shape(X, 2).shape == (4,)
        assert model.lower(X, 1).as_text() != model.lower(X, 3).as_text()


def test_a_compiled_function_that_is_compiled_again_keeps_its_arguments():
    once = jit(scaled, static_argnums=1)
    assert jit(once, donate_argnums=0) is once
    assert ahead.told(once) == (scaled, {"static_argnums": 1})


def test_clear_cache_forgets_what_was_compiled():
    dynacomp.reset()
    f, kept = jit(lambda x: jnp.sin(x) + 1), jit(lambda x: jnp.cos(x) + 1)
    for call in (1, 2, 3):
        f.clear_cache()
        for g in (f, kept, f, kept):
            g(X)
        assert dynacomp.stats()["frames_captured"] == call + 1
    model = jit(Doubling())
    for _ in range(2):
        model.clear_cache()
        assert model(X)[1] == 2.0 == model(X)[1]
    assert dynacomp.stats()["frames_captured"] >= 6


class Doubling:
    def __call__(self, x):
        return x * 2


def test_compiled_code_that_asks_gets_the_same_answers():
    asked = jit(scaled, static_argnums=1)

    @jit
    def f(x, n):
        shape = asked.eval_shape(x, n).shape if hasattr(asked, "eval_shape") else ()
        return jnp.zeros(shape) + x

    for n, size in ((1, 2), (2, 5), (2, 7), (3, 2)):
        assert f(jnp.ones(size), n).tolist() == [1.0] * size
