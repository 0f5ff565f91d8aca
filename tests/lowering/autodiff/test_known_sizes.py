"""Jaxprs of unknown sizes at known ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.autodiff.known_sizes import asks_for_sizes, at_sizes

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


def test_a_size_that_was_found_equal_to_another_behind_the_trace_has_its_value():
    """JAX's caches give back what they traced before the two were one."""
    scope = Scope()
    n, m = scope.symbol("n", 5), scope.symbol("m", 5)
    closed = jax.make_jaxpr(lambda x: x[0] + jax.random.normal(jax.random.key(0), (m,)))(
        jax.ShapeDtypeStruct((n,), jnp.float32))
    with scope.decides():
        assert n == m
    assert at_sizes(closed, {"n": 2}).out_avals[0].shape == (2,)


@jax.custom_jvp
def cubed(x):
    return x ** 3


@cubed.defjvp
def cubed_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return cubed(x), t * (3 if x.shape[0] > 4 else jax.nn.softmax(x)) * x * x


@jax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g * 2,))


def symbolic(fn):
    scope = Scope()
    return jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((scope.symbol("n", 5), 3), jnp.float32)), scope


@pytest.mark.parametrize("fn, asks", [
    (jnp.tanh, False), (jax.nn.relu, False), (jax.nn.softmax, False), (lambda x: jnp.logaddexp(x, 1.0), False),
    (cubed, True), (doubled, True), (lambda x: jax.jit(cubed)(x), True),
    (lambda x: jax.lax.scan(lambda c, row: (c, jax.nn.relu(row)), 0, x), False),
], ids=["none", "relu", "softmax", "logaddexp", "forward", "backward", "called", "scanned"])
def test_rules_that_may_ask_for_sizes(fn, asks):
    closed, scope = symbolic(fn)
    with scope.decides():
        assert asks_for_sizes(closed.jaxpr, scope) is asks
    assert not scope.relations


@pytest.mark.parametrize("fn", [jax.nn.relu, jax.nn.softmax, lambda x: jnp.logaddexp(x, x[:1])],
                         ids=["relu", "softmax", "logaddexp"])
def test_rules_at_known_sizes(fn):
    """To the third order, where each rule holds a function with the next."""
    def derivatives(f):
        return jax.jit(lambda x: orders(f, x))

    def orders(f, x):
        first = jax.jvp(f, (x,), (jnp.cos(x),))[1]
        second = jax.jvp(lambda y: jax.jvp(f, (y,), (jnp.cos(x),))[1], (x,), (x,))[1]
        return first, second, jax.grad(lambda y: (jax.grad(lambda z: (f(z) ** 2).sum())(y) ** 2).sum())(x)

    closed, _ = symbolic(lambda x: fn(x * 2))
    for size in (2, 7):
        x = jnp.linspace(-1, 2, 3 * size).reshape(size, 3)
        known = jaxpr_as_fun(at_sizes(closed, {"n": size}))
        derived, expected = derivatives(lambda x, known=known: known(x)[0]), derivatives(lambda x: fn(x * 2))
        for got, want in zip(derived(x), expected(x)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
