"""Jaxprs of unknown sizes at known ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.autodiff.known_sizes import at_sizes, has_rules

W = jnp.linspace(-1, 1, 12).reshape(3, 4)


def looped(x):
    def body(carry, row):
        return jnp.tanh(carry + row), carry.sum() * x.shape[0]
    return jax.lax.scan(body, jnp.zeros(3), x)


FUNCTIONS = {
    "dense": lambda x: jnp.tanh(x @ W).sum() / x.shape[0],
    "reshaped": lambda x: jnp.concatenate([x.reshape(-1), jnp.ones(2 * x.shape[0] + 1)]),
    "looped": looped,
    "chosen": lambda x: jax.lax.cond(x.sum() > 0, lambda v: v.T, lambda v: 2 * v.T, x),
    "called": lambda x: jax.jit(lambda v: jnp.pad(v, ((1, 0), (0, 0)))[1:])(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_what_jax_traces_for_these_sizes(name):
    fn, scope = FUNCTIONS[name], Scope()
    n = scope.symbol("n", 5)
    with scope.decides():
        closed = jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((n, 3), jnp.float32))
    for size in (2, 7):
        x = jnp.linspace(-1, 2, 3 * size).reshape(size, 3)
        known = at_sizes(closed, {"n": size})
        assert all(isinstance(d, int) for a in (*known.in_avals, *known.out_avals) for d in a.shape)
        for got, want in zip(jaxpr_as_fun(known)(x), jax.tree.leaves(fn(x)), strict=True):
            assert (got.dtype, got.weak_type) == (want.dtype, want.weak_type)
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_functions_with_rules_are_found_at_any_depth():
    assert has_rules(jax.make_jaxpr(jax.jit(jax.nn.relu))(1.0).jaxpr)
    assert not has_rules(jax.make_jaxpr(jnp.tanh)(1.0).jaxpr)
