"""Arrays that come out of a call as they went in are the same objects, as in eager JAX; see `handed_on.py`."""

import doctest

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import dynacomp
from dynacomp.capture.tracing import handed_on as module


@jax.custom_jvp
def doubled(x):
    return x


doubled.defjvp(lambda p, t: (doubled(*p), 2 * t[0]))


@jax.custom_vjp
def tripled(x):
    return x, x + 1


tripled.defvjp(lambda x: (tripled(x), None), lambda _, c: (3 * c[0],))

CALLS = {
    "custom_jvp": doubled,
    "custom_vjp": lambda x: tripled(x)[0],
    "made anew": lambda x: tripled(x)[1],
    "nested": lambda x: doubled(tripled(x)[0]),
    "vmap": jax.vmap(doubled),
    "checkpoint": jax.checkpoint(lambda x: x),
    "checkpoint of a sum": jax.checkpoint(lambda x: x + 1),
    "cond": lambda x: lax.cond(x.shape[0] > 2, lambda x: x, lambda x: x, x),
    "cond of two": lambda x: lax.cond(x[0, 0] > 2, lambda x: x, lambda x: -x, x),
    "scan": lambda x: lax.scan(lambda c, y: (c, y), x, jnp.ones(2))[0],
    "stop_gradient": lax.stop_gradient,
    "transpose": lambda x: jnp.transpose(x, (0, 1)),
    "transposed": lambda x: jnp.transpose(x, (1, 0)),
    "concatenate": lambda x: jnp.concatenate([x]),
    "device_put": jax.device_put,
    "named_call": jax.named_call(lambda x: x),
    "vmap of the same": jax.vmap(lambda x: x),
    "both": lambda x: (jnp.real(x), lax.squeeze(x, ()))[1],
    "squeeze": lambda x: lax.squeeze(x, ()),
    "squeeze of jnp": lambda x: jnp.squeeze(x, ()),
    "expand_dims": lambda x: lax.expand_dims(x, ()),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, x.shape, (0, 1)),
    "astype": lambda x: x.astype(x.dtype),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, 0),
    "swapaxes": lambda x: jnp.swapaxes(x, 0, 0),
    "positive": lambda x: +x,
    "real": jnp.real,
    "all of it": lambda x: x[...],
    "a slice of all": lambda x: x[0:x.shape[0]],
    "copied": lambda x: jnp.array(x),
    "reshape": lambda x: jnp.reshape(x, x.shape),
    "of two": lambda x: jnp.broadcast_arrays(x, x + 1)[0],
}


def test_documentation():
    assert not doctest.testmod(module).failed


@pytest.mark.parametrize("name", CALLS)
def test_identity(name):
    call = CALLS[name]

    def asked(x):
        y = call(x)
        return y is x, x + 1, y

    compiled, before = dynacomp.jit(asked, backend="eager"), dynacomp.stats()["breaks"]
    for n in (3, 4):
        x = jnp.ones((n, n))
        same, _, y = compiled(x)
        assert same == asked(x)[0] == (y is x)
        assert jnp.array_equal(y, call(x))
    assert dynacomp.stats()["breaks"] == before


@pytest.mark.parametrize("first", ["values", "gradients"])
def test_derivatives_stay(first):
    def f(x):
        return (doubled(x) * lax.stop_gradient(x) + tripled(x)[0]).sum()

    def inside(x):
        return jax.grad(f)(x), doubled(x) is x

    compiled, within, x = dynacomp.jit(f), dynacomp.jit(inside), jnp.arange(3.0)
    if first == "values":
        assert compiled(x) == f(x)
    for _ in range(2):
        assert jnp.array_equal(jax.grad(compiled)(x), jax.grad(f)(x))
        assert jnp.array_equal(within(x)[0], jax.grad(f)(x)) and within(x)[1]
        assert compiled(x) == f(x)
