"""Derived jaxprs against JAX's own transformations of the function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from dynacomp.lowering.autodiff.derive import batched, linearised, pushed, transposed

X, W = jnp.linspace(-1, 1, 6).reshape(2, 3), jnp.linspace(0, 1, 12).reshape(3, 4)


def layer(x, w, n):
    return [jnp.tanh(x @ w) * n, n + 1, x]


@pytest.fixture
def closed():
    return jax.make_jaxpr(layer)(X, W, jnp.int32(3))


def test_a_split_computes_outputs_and_tangents(closed):
    split = linearised(closed, (True, True, False))
    inputs = X, W, jnp.int32(3)
    results = jaxpr_as_fun(split.forward)(*inputs)
    outputs, saved = results[:3], results[3:]
    moved = jaxpr_as_fun(split.tangent)(*split.picked(inputs, outputs, saved), X + 1, W - 1)
    want, tangents = jax.jvp(lambda x, w: layer(x, w, jnp.int32(3)), (X, W), (X + 1, W - 1))
    for a, b in zip((*outputs, *moved), (*want, tangents[0], tangents[2])):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_inputs_and_outputs_are_not_saved_again(closed):
    split = linearised(closed, (True, True, False))
    assert {"in"} <= {kind for kind, _ in split.residuals} and len(set(split.residuals)) < len(split.residuals) + 1
    saved = len(split.forward.out_avals) - 3
    assert saved == len({i for kind, i in split.residuals if kind == "saved"})
    shapes = [a.shape for a in split.forward.out_avals[3:]]
    assert X.shape not in shapes and W.shape not in shapes


def test_values_and_tangents_in_one_go(closed):
    over, which = pushed(closed, (True, False, False))
    assert which == (True, False, True)
    found = jaxpr_as_fun(over)(X, W, jnp.int32(3), X + 1)
    want, moved = jax.jvp(lambda x: layer(x, W, jnp.int32(3)), (X,), (X + 1,))
    for a, b in zip(found, (*want, moved[0], moved[2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_transpose_of_what_is_asked_for(closed):
    split = linearised(closed, (True, True, False))
    inputs = X, W, jnp.int32(3)
    results = jaxpr_as_fun(split.forward)(*inputs)
    residuals = split.picked(inputs, results[:3], results[3:])
    linear = (False,) * len(residuals) + (True, True)
    ones = jnp.ones((2, 4))
    backward, reached = transposed(split.tangent, linear, (True, False))
    assert reached == (True, True)
    dx, dw = jaxpr_as_fun(backward)(*residuals, ones)
    want = jax.vjp(lambda x, w: layer(x, w, jnp.int32(3))[0], X, W)[1](ones)
    np.testing.assert_allclose(dx, want[0], rtol=1e-5)
    np.testing.assert_allclose(dw, want[1], rtol=1e-5)


@pytest.mark.parametrize("axes", [(0, None, None), (1, 2, 0), (None, 0, None)])
def test_a_batch(closed, axes):
    args = [x if a is None else jnp.stack([x, x + 1], a) for x, a in zip((X, W, jnp.int32(3)), axes)]
    over, mapped = batched(closed, axes, 2)
    assert mapped == (True, axes[2] is not None, axes[0] is not None)
    want = jax.vmap(layer, axes, out_axes=[0 if m else None for m in mapped])(*args)
    for a, b in zip(jaxpr_as_fun(over)(*args), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_a_function_with_a_rule_makes_of_no_batch_has_none():
    closed = jax.make_jaxpr(lambda x, y: (jax.nn.relu(x), x * y))(jnp.ones(3), jnp.ones(3))
    over, mapped = batched(closed, (None, 0), 2)
    assert mapped == (False, True) and [a.shape for a in over.out_avals] == [(3,), (2, 3)]
