"""Who sees what a library's call is given: JAX alone, libraries that go through trees by name, or the program."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import dynacomp
from dynacomp.capture.tracing.onlookers import by_name, holds_user_code, is_for_jax
from dynacomp.capture.values.constant import Const

X = jnp.ones(2)


def loss(p):
    return p["w"].sum()


ADAM, MASKED = optax.adam(1e-3), optax.masked(optax.sgd(0.1), lambda tree: tree)


@pytest.mark.parametrize("fn, args, jaxs, named", [
    (jax.tree.map, [jnp.add], True, True),
    (jax.value_and_grad, [loss], True, False),
    (ADAM.update, [], False, True),
    (optax.apply_updates, [], False, True),
    (MASKED.update, [], False, False),
    (eqx.filter, [eqx.is_array], False, True),
    (eqx.filter_grad, [loss], False, False),
], ids=["tree", "grad", "adam", "updates", "masked", "filter", "filter_grad"])
def test_who_looks(fn, args, jaxs, named):
    values = [Const(arg) for arg in args]
    assert (is_for_jax(fn, values), by_name(fn, values) > 0) == (jaxs, named)


@pytest.mark.parametrize("obj, holds", [
    (loss, True), (jnp.sin, False), (ADAM.update, False), (MASKED.update, True), (jax.jit(loss), True),
    (jax.grad(loss), True), (functools.partial(jnp.add, 1), False), (functools.partial(loss), True)])
def test_functions_of_the_program_in_those_of_libraries(obj, holds):
    assert holds_user_code(obj) is holds


def body(p, x):
    return [v * (n + 1) * x for n, v in enumerate(p.values())]


@pytest.mark.parametrize("fn", [
    lambda p, x: jax.tree_util.Partial(body, p)(x),
    lambda p, x: jax.named_call(body, name="n")(p, x),
    lambda p, x: jax.profiler.annotate_function(body)(p, x),
    lambda p, x: jax.vmap(jax.tree_util.Partial(body, p))(jnp.stack([x, x])),
    lambda p, x: jax.grad(lambda x, p: sum(body(p, x)).sum())(x, p),
    lambda p, x: jax.grad(lambda p, x: sum(body(p, x)).sum(), argnums=1)(p, x)])
def test_what_jax_hands_on_keeps_its_order(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for order in ("bcw", "wbc", "cwb", "bcw"):
        p = {key: jnp.ones(2) * ord(key) for key in order}
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), fn(p, X), compiled(p, X)))
