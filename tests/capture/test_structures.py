"""Trees whose structure says more than where leaves are: functions, keys without order, structures as leaves."""

import jax
import jax.numpy as jnp
import pytest
from jax.example_libraries import optimizers

import dynacomp

X = jnp.ones(3)


def test_what_a_chain_of_calls_makes_of_a_library_is_made_once_each():
    def program(x):
        init, update, params = optimizers.sgd(0.1)
        state = init(x)
        for i in range(16):  # twice as long for each round, once
            state = update(i, jax.grad(lambda v: v**2)(params(state)), state)
        return params(state)

    assert jnp.allclose(dynacomp.jit(program, backend="eager")(1.0), program(1.0))


@pytest.mark.parametrize("ask", [jax.tree.leaves, jax.tree.structure, lambda tree: jax.tree.map(abs, tree),
                                 jax.tree_util.tree_flatten_with_path, lambda tree: jax.vmap(len)(tree)])
def test_keys_without_an_order(ask):
    def program(tree, x):
        try:
            return ask(tree)
        except (ValueError, TypeError) as error:
            return x + 1, type(error), str(error)

    dynacomp.reset()
    args = {"a": X, 2: X}, X
    assert repr(dynacomp.jit(program, backend="eager")(*args)) == repr(program(*args))
    told = dynacomp.stats()
    assert set(told["breaks"]) <= {"raises"} and not told["frames_eager"]
