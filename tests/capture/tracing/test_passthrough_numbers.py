"""Numbers that JAX hands back are Python's, or have a dtype, as eager JAX gives them; see `passthrough.py`."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import dynacomp

CALLS = {
    "value of the identity": lambda x: jax.value_and_grad(lambda t: t)(x),
    "value of a jitted identity": lambda x: jax.value_and_grad(jax.jit(lambda t: t))(x),
    "aux": lambda x: jax.grad(lambda t: (t * t, t), has_aux=True)(x),
    "aux of a value": lambda x: jax.value_and_grad(jax.jit(lambda t: (t, t)), has_aux=True)(x),
    "one of two": lambda x: jax.value_and_grad(jax.jit(lambda t, u: t), argnums=(0, 1))(x, x),
    "a dict": lambda x: jax.value_and_grad(jax.jit(lambda d: d["a"]))({"a": x, "b": x}),
    "jvp": lambda x: jax.jvp(lambda t: (t, t * 2), (x,), (1.0,)),
    "vjp": lambda x: jax.vjp(lambda t: t, x)[0],
    "a carry": lambda x: lax.scan(lambda c, _: (c, c), x, None, length=2),
    "stop_gradient": lambda x: (lax.stop_gradient(x), jnp.float32(x)),
    "an array of it": lambda x: (jnp.asarray(x), jnp.asarray(x).__pow__(jnp.int32(3)), jnp.asarray(x) + 1),
    "arrays of it in a body": lambda x: jax.value_and_grad(
        lambda t: (t * x, lax.stop_gradient(jnp.asarray(2.0))), has_aux=True)(x),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_numbers_come_back_as_eager_jax_gives_them(call):
    dynacomp.reset()
    compiled = dynacomp.jit(call, backend="eager")
    for x in (2.0, 3.0, -1.0, 0.5, 2.0, 7.0, 0.1, 4.0, 9.0, -3.0):
        assert _shown(compiled(x)) == _shown(call(x))
    assert dynacomp.stats()["frames_captured"] <= 3


def _shown(tree):
    return jax.tree.map(lambda v: (type(v), repr(v)), tree)


def test_a_number_with_a_dtype_is_one_to_the_program():
    def asked(x):
        value, grad = jax.value_and_grad(jax.jit(lambda t: t))(x)
        return value, value.dtype, value + 1, float(value), grad * value, isinstance(value, float)
    dynacomp.reset()
    compiled = dynacomp.jit(asked, backend="eager")
    for k in range(10):
        assert _shown(compiled(k / 4)) == _shown(asked(k / 4))
