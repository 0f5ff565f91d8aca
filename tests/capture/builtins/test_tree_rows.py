"""`jax.tree.*` in compiled code: trees that a library has just made are taken apart as eager JAX does."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph


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


def test_leaves_that_their_paths_tell():
    def program(x):
        tree = {"a": [x, x + 1], "b": (x * 2,)}

        def stop(path, part):
            return len(path) == 1 and path[0].key == "a"

        named = jax.tree.map_with_path(lambda path, leaf: (len(path), leaf), tree, is_leaf=stop,
                                       is_leaf_takes_path=True)
        flat, structure = jax.tree.flatten_with_path(tree, stop, True)
        return named, len(flat), structure, len(jax.tree.leaves_with_path(tree, is_leaf=lambda part: False))

    dynacomp.reset()
    want, got = program(jnp.ones(2)), dynacomp.jit(program, backend="eager")(jnp.ones(2))
    assert jax.tree.structure(got) == jax.tree.structure(want) and got[1:] == want[1:]
    assert not dynacomp.stats()["breaks"]


def test_what_the_rows_do_not_take_is_left_to_jax():
    compiled = dynacomp.jit(lambda x: jax.tree.map(abs, x, nonsense=1), backend="eager")
    with pytest.raises(TypeError, match="nonsense"):
        compiled(jnp.ones(2))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    step: Any
    w: Any
    tx: Any = dataclasses.field(metadata={"static": True})


@jax.jit
def stepped(state, x):
    return dataclasses.replace(state, step=state.step + 1, w=state.w * x)


def paths(tree):
    """As Flax looks for a tree's parts."""
    found, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda part: part is not tree)
    return [(path[0].name, callable(part)) for path, part in found]


def test_a_transformation_of_optax_is_a_tree_of_functions():
    def program(x):
        tx = optax.sgd(0.1)
        found = paths(tx)
        kept = jax.tree.map(lambda part: part, tx)
        return kept.update(x, kept.init(x))[0], found, kept is tx, kept.init is tx.init

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in range(3):
        assert repr(program(jnp.ones(3) * k)) == repr(compiled(jnp.ones(3) * k))
    assert (dynacomp.stats()["frames_captured"], dynacomp.stats()["breaks"]) == (1, {})


@pytest.mark.parametrize("in_leaf", [False, True])
def test_a_librarys_tree_in_a_static_field_is_not_taken_apart(in_leaf):
    def program(x):
        made = State(0, x, optax.sgd(0.1))
        if in_leaf:  # jax.jit takes no functions for arrays
            try:
                return stepped((made.tx, made), x)
            except TypeError:
                return made.w
        again = jax.tree.map(lambda a: a * 2, made)
        return stepped(made, x).step, again.step, again.tx is made.tx

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in range(3):
        expected, found = program(jnp.ones(3) * k), compiled(jnp.ones(3) * k)
        assert repr(expected) == repr(found)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and bool(stats["breaks"]) is in_leaf


class Pair:
    def __init__(self, a, b, name):
        self.a, self.b, self.name = a, b, name


jax.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), (p.name,)), lambda aux, c: Pair(*c, *aux))


def test_one_level_of_a_tree():
    def visited(tree, depth=0):
        """Every node of a tree with what its class keeps: as libraries mark the objects in one."""
        found = jax.tree_util.default_registry.flatten_one_level(tree)
        if found is None:
            return [(depth, tree)]
        return [(depth, found[1])] + [row for child in found[0] for row in visited(child, depth + 1)]

    def program(x, n):
        shared = [x, n]
        tree = {"b": shared, "a": Pair(x * 2, (None, 3.0), "named"), "c": ()}
        children = jax.tree_util.default_registry.flatten_one_level(tree)[0]
        return visited(tree), children[1] is shared, children[0].name

    check_one_graph(program, (jnp.ones(3), 2), (jnp.zeros(3), 2))


class Settings:
    """No tree to JAX: a leaf."""

    def __init__(self, rate, log):
        self.rate, self.log = rate, log


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Held:
    x: Any
    how: Any = dataclasses.field(metadata={"static": True})


@pytest.mark.parametrize("use", [
    lambda tree: jax.tree.leaves(tree), lambda tree: jax.tree.unflatten(*jax.tree.flatten(tree)[::-1]),
    lambda tree: jax.tree.map(lambda leaf: leaf, tree), lambda tree: jax.tree.leaves_with_path(tree),
    lambda tree: jax.tree.map(lambda leaf: leaf, tree, is_leaf=lambda part: isinstance(part, Settings)),
], ids=["leaves", "flatten", "map", "paths", "is_leaf"])
def test_what_is_no_tree_is_handed_through_and_nothing_of_it_is_a_condition(use):
    def program(settings, x):
        found = use({"a": [settings, x], "b": settings})
        return found, x * settings.rate

    compiled, before = dynacomp.jit(program), dynacomp.stats()["frames_captured"]
    settings, x = Settings(2.0, []), jnp.arange(3.0)
    for turn in range(10):
        settings.log.append(turn)
        settings.more = turn
        got, want = compiled(settings, x), program(settings, x)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert a is b if isinstance(b, Settings) else bool(jnp.all(a == b))
    assert dynacomp.stats()["frames_captured"] - before == 1
    settings.rate = 3.0
    assert bool((compiled(settings, x)[1] == x * 3).all())


def test_a_static_field_that_is_no_tree_is_part_of_the_structure():
    def program(settings, x):
        leaves, tree = jax.tree.flatten([Held(x, settings), settings])
        return leaves, tree, jax.tree.unflatten(tree, leaves)[0].how is settings

    settings = Settings(2.0, [])
    for _ in range(3):
        got, want = dynacomp.jit(program)(settings, jnp.ones(2)), program(settings, jnp.ones(2))
        assert got[1:] == want[1:] and got[0][1] is settings
