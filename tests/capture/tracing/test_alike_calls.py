"""dynacomp.capture.tracing.alike_calls: what calls that are alike share, and which calls are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.tracing import abstract_evaluation

X = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)


@pytest.fixture
def traced(monkeypatch):
    """The names of the functions that are evaluated anew."""
    seen, plain = [], abstract_evaluation.evaluated_anew

    def evaluated_anew(cap, fn, lowered, since):
        seen.append(fn.__name__)
        return plain(cap, fn, lowered, since)

    monkeypatch.setattr(abstract_evaluation, "evaluated_anew", evaluated_anew)
    return seen


def run(fn, *args):
    """The results compiled and plain, which must be the same, types and all."""
    found, plain = dynacomp.jit(fn, backend="eager")(*args), fn(*args)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(plain), strict=True):
        assert type(one) is type(other)
        if isinstance(other, jax.Array):
            assert one.dtype == other.dtype and one.weak_type == other.weak_type
        np.testing.assert_array_equal(one, other)
    return found


def test_layers_are_traced_once(traced):
    def layers(x):
        for _ in range(6):
            x = jnp.tanh(jnp.multiply(x, 1.5)) + x
        return x

    run(layers, X)
    assert traced == ["multiply", "tanh", "add"]


def test_what_tells_calls_apart(traced):
    def program(x, y):
        return (jnp.multiply(x, x), jnp.multiply(x, y), jnp.multiply(y, y), jnp.multiply(x, 2), jnp.multiply(x, 2.0),
                jnp.multiply(x, True), jnp.sum(x, axis=0), jnp.sum(x, axis=1), jnp.sum(x, keepdims=True),
                jnp.power(x, -0.0), jnp.power(x, 0.0))

    run(program, X, X + 1)
    assert len(traced) == 10  # `y * y` is like `x * x`
    del traced[:]
    run(program, X, X.astype(jnp.float16))
    assert len(traced) == 11


def test_settings_of_jax_tell_calls_apart():
    def program(x, n):
        first = jnp.add(x, n)
        with jax.enable_x64(True):
            return first, jnp.add(x, n), jnp.result_type(x, n).name

    run(program, X, X.astype(jnp.int32))


def test_arrays_that_are_handed_back_are_those_of_the_call(traced):
    def program(x, y):
        a, b = jnp.asarray(x), jnp.asarray(y)
        return a is x, b is y, a is b, a + 1, b + 2

    assert run(program, X, X * 3)[:3] == (True, True, False)
    assert traced.count("asarray") == 1


def test_descriptions(traced):
    def program(x, y):
        return x * jnp.ndim(y) + len(jax.typeof(y).shape), jnp.result_type(x, y).name, jnp.result_type(y, x).name

    run(program, X, X + 1)
    assert traced.count("result_type") == 1


def test_bodies_share_with_what_is_around_them():
    def program(x):
        def loss(w):
            return jnp.sum(jnp.tanh(w * 2.0) ** 2) + jnp.sum(jnp.tanh(x * 2.0))
        rows = jax.vmap(lambda r: jnp.tanh(r * 2.0) + jax.lax.psum(r, "i"), axis_name="i")(x)
        return jax.value_and_grad(loss)(x), rows, jnp.tanh(x * 2.0)

    found, plain = dynacomp.jit(program, backend="eager")(X), program(X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, plain)


def test_numbers_that_change_are_not_taken_for_arrays():
    compiled = dynacomp.jit(lambda x, n: (jnp.add(x, n), n * 2, jnp.add(jnp.float32(n), 1)), backend="eager")
    for n in (1, 2, 3, 2.5, 4, 5):
        found, plain = compiled(X, n), (X + n, n * 2, jnp.float32(n) + 1)
        assert type(found[1]) is type(plain[1]) and found[1] == plain[1]
        np.testing.assert_array_equal(found[0], plain[0])
        np.testing.assert_array_equal(found[2], plain[2])
