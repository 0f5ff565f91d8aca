"""`tracing.failures`: what fails by a mistake of ours is told from what fails in the program."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.tracing.failures import _unchain, is_defect, saw_values
from dynacomp.capture.values.constant import Const


def test_mistakes_in_any_room_are_ours():
    with pytest.raises(AttributeError) as ours:
        decode(None)
    with pytest.raises(AttributeError) as theirs:
        None.content  # noqa: B018
    assert is_defect(ours.value) and not is_defect(theirs.value)


def test_what_was_given_a_value_of_the_capture_fails_by_that():
    def library(x):
        raise TypeError(type(x).__name__)

    with pytest.raises(TypeError) as plain:
        library(1)
    with pytest.raises(TypeError) as leaked:
        library(Const(1))
    assert saw_values(leaked.value) and not saw_values(plain.value)


def test_a_call_without_arrays_may_fail_inside_a_transformed_function():
    """As Keras asks for cuDNN's version, and takes another way where JAX finds none."""
    def loss(x):
        try:
            jax.devices("no such platform")
        except RuntimeError:
            x = x * 2
        try:
            jnp.zeros((2, -1))
        except (TypeError, ValueError):
            x = x + 1
        return (x ** 2).sum()

    x = jnp.arange(3.0)
    dynacomp.reset()
    compiled = dynacomp.jit(jax.grad(loss), backend="eager", fullgraph=True)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), jax.grad(loss)(x), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1


def test_a_function_that_looks_at_a_number_is_entered_before_that_is_a_constant():
    """Optax asks `peak_value == 0.0`: one entry for all rates above that, not one a rate."""
    optax = pytest.importorskip("optax")

    def f(x, rate):
        return x * optax.warmup_cosine_decay_schedule(0.0, rate, 3, 20)(5)

    dynacomp.reset()
    compiled, caps = dynacomp.jit(f, backend="eager"), []
    for rate in (0.1, 0.2, 0.3, 0.0, 0.4, 0.05, 0.6):
        before = dynacomp.stats()["frames_captured"]
        np.testing.assert_allclose(compiled(jnp.arange(3.0), rate), f(jnp.arange(3.0), rate), rtol=1e-6)
        caps.append(dynacomp.stats()["frames_captured"] - before)
    assert caps[0] and sum(caps) <= 3 and not any(caps[4:]) and not dynacomp.stats()["breaks"], caps


def test_what_was_handled_outside_is_no_part_of_a_failure():
    def raised(error, cause):
        raise error from cause

    outer, inner, itself = KeyError("outer"), TypeError("inner"), ValueError("itself")
    try:
        raise outer
    except KeyError:
        try:
            try:
                raise inner
            except TypeError:
                raised(itself, itself)
        except ValueError as error:
            assert error.__context__ is inner and error.__context__.__context__ is outer
            _unchain(error, sys.exception().__context__.__context__)
    assert itself.__cause__ is itself and itself.__context__ is inner and inner.__context__ is None


def test_what_makes_a_function_that_takes_no_size_is_entered():
    def f(key, n):
        return jax.nn.initializers.orthogonal()(key, (n, 3))

    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    for n in (6, 7, 8, 9):
        np.testing.assert_allclose(compiled(jax.random.key(n), n), f(jax.random.key(n), n), rtol=1e-4, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def _lowered_anew(x):
    return jax.jit(lambda t: t * 2).lower(x).compile()(x)


def _lowered_under_a_setting(x):
    with jax.default_matmul_precision("float32"):
        return jax.jit(lambda t: t * 3).lower(x).compile()(x)


@pytest.mark.parametrize("f", [_lowered_anew, _lowered_under_a_setting])
def test_what_jax_fails_at_out_of_sight_is_no_mistake_of_ours(f):
    """JAX takes its own frames out of tracebacks: the last one that is left is of what called it."""
    dynacomp.reset()
    compiled = dynacomp.jit(f)
    for n in (4, 5, 6, 7):
        np.testing.assert_array_equal(compiled(jnp.arange(float(n))), f(jnp.arange(float(n))))
    assert "internal" not in dynacomp.stats()["frames_eager"]
