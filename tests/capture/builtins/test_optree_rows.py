"""`builtins.optree_rows`: trees that optree takes apart are known while capturing."""

from collections import OrderedDict, namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

optree = pytest.importorskip("optree")
Pair = namedtuple("Pair", "a b")
X = jnp.arange(4.0)
TREES = {
    "dict": lambda x: {"b": x, "a": [x + 1, (x, 2)], "c": None},
    "named": lambda x: Pair(x, OrderedDict(z=x * 2, y=3.0)),
    "leaf": lambda x: x,
}
USES = {
    "map": lambda t: optree.tree_map(lambda v: v * 2, t),
    "map of two": lambda t: optree.tree_map(lambda v, w: v * w, t, t),
    "leaves": lambda t: sum(jnp.sum(v) for v in optree.tree_leaves(t)),
    "flatten": lambda t: optree.tree_unflatten(optree.tree_structure(t), [v + 1 for v in optree.tree_flatten(t)[0]]),
    "none": lambda t: optree.tree_map(lambda v: 0 if v is None else v + 1, t, none_is_leaf=True),
    "is_leaf": lambda t: optree.tree_map(lambda v: v if not isinstance(v, tuple) else v[0], t,
                                         is_leaf=lambda v: isinstance(v, tuple)),
    "paths": lambda t: (optree.tree_paths(t), optree.tree_map_with_path(lambda p, v: v * (len(p) + 1), t)),
    "asked": lambda t: (optree.tree_is_leaf(t), optree.tree_structure(t).num_leaves, optree.tree_leaves(t)[0] * 2),
    "reduce": lambda t: optree.tree_reduce(lambda a, b: a + jnp.sum(b), t, 0.0),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("tree", TREES)
def test_as_in_python_and_in_one_graph(tree, use):
    def program(x):
        return USES[use](TREES[tree](x * 3))

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager", fullgraph=True)
    for x in (X, X + 1, X * 2):
        want, got = program(x), compiled(x)
        assert jax.tree.structure(want) == jax.tree.structure(got)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got)):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b) if isinstance(a, jax.Array) else None
    assert dynacomp.stats()["frames_captured"] == 1


def test_a_structure_that_leaves_is_optrees_own():
    compiled = dynacomp.jit(lambda x: (optree.tree_structure({"a": x, "b": (x,)}), x + 1), backend="eager")
    assert compiled(X)[0] == optree.tree_structure({"a": X, "b": (X,)}) == compiled(X)[0]


def test_trees_that_do_not_fit_raise_what_optree_raises():
    def program(x):
        return optree.tree_map(lambda a, b: a + b, {"a": x}, {"b": x})

    for fn in (program, dynacomp.jit(program, backend="eager")):
        with pytest.raises(ValueError, match="dictionary key mismatch"):
            fn(X)


def test_classes_of_the_program_are_left_to_python():
    class Box:
        def __init__(self, x):
            self.x = x

    optree.register_pytree_node(Box, lambda b: ([b.x], None), lambda _, xs: Box(*xs), namespace="dynacomp_test")

    def program(x):
        return optree.tree_map(lambda v: v * 2, Box(x), namespace="dynacomp_test").x + 1

    np.testing.assert_array_equal(dynacomp.jit(program, backend="eager")(X), program(X))
