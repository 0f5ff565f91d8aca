"""Who sees what a library's call is given: JAX alone, libraries that go through trees by name, or the program."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

from dynacomp.capture.tracing.onlookers import holds_user_code, is_by_name, is_for_jax
from dynacomp.capture.values.constant import Const


def loss(p):
    return p["w"].sum()


ADAM, MASKED = optax.adam(1e-3), optax.masked(optax.sgd(0.1), lambda tree: tree)


@pytest.mark.parametrize("fn, args, jaxs, by_name", [
    (jax.tree.map, [jnp.add], True, True),
    (jax.value_and_grad, [loss], True, False),
    (ADAM.update, [], False, True),
    (optax.apply_updates, [], False, True),
    (MASKED.update, [], False, False),
    (eqx.filter, [eqx.is_array], False, True),
    (eqx.filter_grad, [loss], False, False),
], ids=["tree", "grad", "adam", "updates", "masked", "filter", "filter_grad"])
def test_who_looks(fn, args, jaxs, by_name):
    values = [Const(arg) for arg in args]
    assert (is_for_jax(fn, values), is_by_name(fn, values)) == (jaxs, by_name)


@pytest.mark.parametrize("obj, holds", [
    (loss, True), (jnp.sin, False), (ADAM.update, False), (MASKED.update, True), (jax.jit(loss), True),
    (jax.grad(loss), True), (functools.partial(jnp.add, 1), False), (functools.partial(loss), True)])
def test_functions_of_the_program_in_those_of_libraries(obj, holds):
    assert holds_user_code(obj) is holds
