"""dynacomp.register_kernel: a kernel of the program's for a pattern of several operations."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.linspace(-2.0, 2.0, 6).reshape(2, 3)
# It computes something else than the pattern, so that one sees which of the two ran.
other = dynacomp.custom_op("other", abstract=lambda x, y: x, cpp="""
    void other(Array<const float> x, Array<const float> y, Array<float> out) {
      for (int64_t i = 0; i < x.size(); i++) out[i] = x[i] - y[i];
    }""")


def gate(x, y):
    return x * jax.nn.sigmoid(y)


@pytest.fixture
def registered():
    dynacomp.reset()
    take_back = dynacomp.register_kernel(gate, other)
    yield
    take_back()


def test_it_stands_where_the_pattern_fits(registered):
    fn = dynacomp.jit(lambda x, y: gate(x, y) + 1, fullgraph=True)
    for n in (2, 3, 4):
        x, y = jnp.ones((n, 3)) * n, jnp.ones((n, 3))
        for _ in range(2):
            np.testing.assert_allclose(fn(x, y), x - y + 1)
    assert dynacomp.stats()["externs"] == {} and dynacomp.stats()["regions"] == {"cpp": 2}
    assert "other" in dynacomp.explain(lambda x, y: gate(x, y))(X, X).regions[0].kernels


def test_not_where_a_value_from_within_is_read(registered):
    fn = lambda x, y: (gate(x, y), jax.nn.sigmoid(y))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), dynacomp.jit(fn)(X, X), fn(X, X))


def test_functions_compiled_before_and_after_it():
    fn = dynacomp.jit(lambda x, y: gate(x, y))
    np.testing.assert_allclose(fn(X, X), gate(X, X), rtol=1e-6)
    take_back = dynacomp.register_kernel(gate, other, where=lambda match: match.avals[0].shape == (2, 3))
    try:
        np.testing.assert_allclose(fn(X, X), X - X)
        np.testing.assert_allclose(fn(X.T, X.T), gate(X.T, X.T), rtol=1e-6)
    finally:
        take_back()
    take_back()
    np.testing.assert_allclose(fn(X, X), gate(X, X), rtol=1e-6)


def test_one_that_does_not_fit_is_left_out_and_told(caplog):
    dynacomp.reset()
    take_back = dynacomp.register_kernel(gate, lambda x, y: x.sum())
    try:
        with caplog.at_level(logging.WARNING, "dynacomp"):
            np.testing.assert_allclose(dynacomp.jit(lambda x, y: gate(x, y))(X, X), gate(X, X), rtol=1e-6)
        (said,) = [r.getMessage() for r in caplog.records]
        assert "pass use_kernels: PatternError" in said
    finally:
        take_back()
    with pytest.raises(TypeError, match="two functions"):
        dynacomp.register_kernel(gate, "other")
