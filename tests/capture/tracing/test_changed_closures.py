"""A function under a transformation that runs it in each call reads what it closes over as it is then."""

import jax
import jax.numpy as jnp
import optax
import pytest

import dynacomp

SETTINGS = {"k": 1.0}


def a_global(x, k):
    slope = jax.grad(lambda w: jnp.sum(w * w * SETTINGS["k"]))
    SETTINGS["k"] = k
    first = slope(x)
    SETTINGS["k"] = 3.0
    return first, slope(x)


def a_list(x, k):
    factor = [k]
    scaled = jax.vmap(lambda w: w * factor[0])
    first = scaled(x)
    factor[0] = 5.0
    return first, scaled(x)


def a_variable(x, k):
    factor = jnp.float32(k)
    step = jax.value_and_grad(lambda w: jnp.sum(w * factor))
    first = step(x)
    factor = factor + 1
    return first, step(x)


def a_loop(x, k):
    out, slope = [], jax.grad(lambda w: jnp.sum(w * w * batch))
    for i in range(3):
        batch = x + i * k
        out.append(slope(x))
    return out


def an_attribute(x, k):
    class Model:
        pass

    model = Model()
    model.k = k
    slope = jax.jacfwd(lambda w: w * model.k)
    first = slope(x)
    model.k = k + 2
    return first, slope(x)


def a_schedule(x, k):
    SETTINGS["k"] = k
    tx = optax.scale_by_schedule(lambda count: SETTINGS["k"] * 0.1)
    first, state = tx.update(x, tx.init(x))
    SETTINGS["k"] = 3.0
    return first, tx.update(x, state)[0]


def a_pullback(x, k):
    factor = k

    def cubed(w):
        return w ** 3 * factor

    y, pull = jax.vjp(cubed, x)
    first = pull(x)
    factor = 8.0
    return y, first, pull(x), jax.vjp(cubed, x)[1](x)


def a_linear_map(x, k):
    factor = k
    _, push = jax.linearize(lambda w: w ** 2 * factor, x)
    factor = 8.0
    return push(x)


def jitted(x, k):  # of which JAX keeps the trace
    factor = k
    total = jax.jit(lambda w: jnp.sum(w * factor))
    first = total(x)
    factor = 5.0
    return first, total(x)


@pytest.mark.parametrize("fn", [a_global, a_list, a_variable, a_loop, an_attribute, a_schedule,
                                a_pullback, a_linear_map, jitted])
def test_what_changes_between_two_calls_of_a_transformed_function(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for k in (1.0, 2.0, 0.5, 4.0):
        want, got = fn(jnp.arange(3.0), k), compiled(jnp.arange(3.0), k)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b)), want, got))
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]
