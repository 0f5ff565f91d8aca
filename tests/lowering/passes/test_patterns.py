"""lowering.passes.patterns: what a pattern fits, what it does not, and what is put in its place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes.patterns import PatternError, find, rewrite
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives import specialise
from dynacomp.lowering.primitives.ops import infer
from dynacomp.lowering.primitives.translate import lower_function

F32 = np.dtype(np.float32)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def swish(x):
    return x * jax.nn.sigmoid(x)


def times(fn, pattern, *args, **how):
    """How often a pattern fits the Graph of a function, before the passes and after them."""
    graph = lower_function(fn, *args)
    found = [len({m.output for m in find(g, pattern, **how)}) for g in (graph, optimise(graph))]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("x", [X, X[0], X.astype(jnp.bfloat16), X[0, 0], X.reshape(2, 2, 3, 2)])
def test_any_rank_and_dtype(x):
    assert times(lambda x: swish(x) + 1, swish, x) == 1


def test_operands_in_either_order():
    assert times(lambda x: jax.nn.sigmoid(x) * x, swish, X) == 1
    assert times(lambda x, y: x - jnp.exp(y), lambda x, y: jnp.exp(y) - x, X, X) == 0


def test_an_argument_that_occurs_twice_is_one_array():
    assert times(lambda x, y: x * jax.nn.sigmoid(y), swish, X, X) == 0


def test_parameters_and_constants_must_be_the_same():
    assert times(lambda x: jax.nn.softmax(x, 0), lambda x: jax.nn.softmax(x, -1), X) == 0
    assert times(lambda x: jax.nn.softmax(x, 1), lambda x: jax.nn.softmax(x, -1), X) == 1
    assert times(lambda x: jnp.maximum(x, 1), lambda x: jnp.maximum(x, 0), X) == 0
    assert times(lambda x: x + jnp.arange(6.), lambda x: x + jnp.arange(6.), X, example=(X,)) == 1


def test_a_mean_divides_by_the_size_at_hand():
    for n in (4, 6):
        assert times(lambda x: jnp.mean(x, 0), lambda x: jnp.mean(x, 0), X.reshape(n, -1)) == 1


def test_a_scalar_argument_is_a_constant_too():
    graph = lower_function(lambda x: jnp.tanh(x * 3), X)
    (match,) = find(graph, lambda x, s: jnp.tanh(x * s), example=(X, F32.type(1)))
    assert match.inputs[1] == 3 and match.avals[1] == Aval((), F32)


def test_arguments_of_several_ranks():
    linear = lambda x, w, b: jax.nn.relu(x @ w + b)
    assert times(linear, linear, X, X.T, X[0, :4], example=(X, X.T, X[0, :4])) == 1


def test_unknown_sizes():
    n = Scope().symbol("n", 4)
    graph = lower_function(lambda x: swish(x).sum(0), Aval((n, 6), F32))
    made = rewrite(graph, swish, jnp.tanh)
    verify(made, infer)
    np.testing.assert_allclose(specialise.run(made, X)[0], np.tanh(X).sum(0), rtol=1e-5)


def test_what_is_replaced_computes_what_the_replacement_does():
    graph = lower_function(lambda x, y: (swish(x @ y), swish(y) + swish(x).sum()), X, X.T)
    made = rewrite(graph, swish, lambda x: jnp.tanh(x) * 2)
    verify(made, infer)
    wanted = np.tanh(X @ X.T) * 2, np.tanh(X.T) * 2 + (np.tanh(X) * 2).sum()
    for got, want in zip(specialise.run(made, X, X.T), wanted):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert "logistic" not in str(made)


def test_a_value_from_within_that_is_read_elsewhere_stays():
    graph = lower_function(lambda x: (swish(x), jax.nn.sigmoid(x)), X)
    graph = optimise(graph)
    (match,) = find(graph, swish)
    assert match.shared
    assert rewrite(graph, swish, jnp.tanh, where=lambda m: not m.shared) is graph
    made = rewrite(graph, swish, jnp.tanh)
    np.testing.assert_allclose(specialise.run(made, X)[1], jax.nn.sigmoid(X), rtol=1e-6)


def test_the_outer_of_two_places_that_overlap_is_taken():
    made = rewrite(lower_function(lambda x: jnp.sin(jnp.sin(jnp.sin(x))), X), lambda x: jnp.sin(jnp.sin(x)), jnp.tanh)
    assert [n.target.name for n in made.calls] == ["sin", "tanh"]


def test_a_replacement_by_a_constant_and_by_an_argument():
    graph = lower_function(lambda x: swish(x), X)
    assert specialise.run(rewrite(graph, swish, lambda x: x), X)[0] is X
    assert not specialise.run(rewrite(graph, swish, lambda x: jnp.zeros_like(x)), X)[0].any()


@pytest.mark.parametrize("replacement, text", [
    (lambda x: x.sum(), "where the pattern makes"), (lambda x: x.astype(jnp.bfloat16), "bf16"),
    (lambda x: (x, x), "one array"),
])
def test_what_does_not_fit_is_refused(replacement, text):
    with pytest.raises(PatternError, match=text):
        rewrite(lower_function(swish, X), swish, replacement)


def test_a_pattern_that_cannot_be_traced_is_told_with_its_example():
    with pytest.raises(PatternError, match="cannot be traced"):
        list(find(lower_function(swish, X), lambda a, b: a @ b, example=(X, X)))
    with pytest.raises(PatternError, match="by position"):
        list(find(lower_function(swish, X), lambda *xs: xs[0]))
