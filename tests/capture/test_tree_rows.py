"""`jax.tree.*` in compiled code: trees that a library has just made are taken apart as eager JAX does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp


def mapped():
    return jax.tree.map(lambda leaf: False, eqx.nn.Linear(2, 3, key=jax.random.key(0)))


def counted():
    model = {"m": eqx.nn.Linear(2, 3, key=jax.random.key(0))}
    return len(jax.tree.leaves(model)), [len(path) for path, _ in jax.tree.leaves_with_path(model)]


def doubled():
    model = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))
    twice = jax.tree.map(lambda leaf: leaf * 2 if eqx.is_array(leaf) else leaf, model)
    return twice(jnp.ones(2)), model(jnp.ones(2))


def frozen():
    model = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))
    spec = jax.tree.map(lambda _: False, model)
    return eqx.tree_at(lambda tree: tree.layers[-1].weight, spec, replace=True)


@pytest.mark.parametrize("program", [mapped, counted, doubled, frozen])
def test_a_model_that_the_library_made_is_a_tree(program):
    dynacomp.reset()
    want, got = program(), dynacomp.jit(program, backend="eager")()
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert all(jnp.allclose(a, b) for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)))
    assert not dynacomp.stats()["breaks"]
