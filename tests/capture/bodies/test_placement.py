"""`bodies.placement`: which calls decide where arrays live, and what an array says of that."""

import jax
import jax.numpy as jnp
import pytest

from dynacomp.capture.bodies.placement import is_specified, jit_places, puts_elsewhere
from tests.capture.program_kit import check_one_graph

DEVICE = jax.devices()[0]


@pytest.mark.parametrize(("fn", "puts"), [
    (lambda x: x + 1, False), (lambda x: jax.device_put(x, DEVICE), True), (lambda x: jax.device_put(x), False),
    (lambda x: jax.jit(lambda y: jax.device_put(y, DEVICE))(x), True)])
def test_primitives_that_place(fn, puts):
    assert puts_elsewhere(jax.make_jaxpr(fn)(1.0).jaxpr) is puts


def test_what_a_jitted_function_is_told():
    there = jax.sharding.SingleDeviceSharding(DEVICE)
    assert not jit_places(jax.jit(jnp.sin)) and not jit_places(jnp.sin)
    assert jit_places(jax.jit(jnp.sin, in_shardings=there)) and jit_places(jax.jit(jnp.sin, out_shardings=there))
    assert is_specified(there) and not is_specified(None)


def where(x):
    y = x * 2
    return y, y.sharding == x.sharding, y.committed


def test_an_array_of_the_graph_lives_where_all_do():
    check_one_graph(where, (jnp.arange(3.0),))
