"""Trees whose structure says more than where leaves are: functions, keys without order, structures as leaves."""

import collections
import contextlib
import sys

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


def test_structures_among_results_are_constants():
    init, update, params = optimizers.momentum(0.1, 0.9)

    def step(i, state):
        return update(i, jax.tree.map(jnp.cos, params(state)), state)

    compiled, state = dynacomp.jit(step, backend="eager"), init({"a": X, "b": X})
    compiled(1, state)
    calls = collections.Counter()
    sys.setprofile(dynacomp.disable(lambda frame, event, _: calls.update([(event, frame.f_code.co_name)])))
    try:
        found = compiled(1, state)
    finally:
        sys.setprofile(None)
    want = step(1, state)
    assert jax.tree.structure(found) == jax.tree.structure(want) and found.tree_def is state.tree_def
    assert jax.tree.all(jax.tree.map(jnp.allclose, found, want))
    assert calls["call", "tree_update"] == 1  # and not once more for what is no array


def test_a_function_of_the_program_in_the_structure_of_a_librarys_object():
    def program(x):
        pull = jax.vjp(lambda v: v * 2, x)[1]
        print("a break")
        with contextlib.suppress(KeyError):
            return pull(x)

    assert jnp.array_equal(dynacomp.jit(program, backend="eager")(X)[0], X * 2)


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
