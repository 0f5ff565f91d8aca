"""`wrapping.pytree_shells`: JAX's registry takes apart what the captured code has made, and puts it together again."""

import collections
import dataclasses

import jax
import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    steps: int
    name: str = dataclasses.field(default="state", metadata={"static": True})


class Stack(list):
    pass


Pair = collections.namedtuple("Pair", "one two")


def of_classes(x):
    state = State(x, 3)
    return jax.tree.map(lambda leaf: leaf * 2, state), jax.tree.leaves(state), state.name


def of_containers(x):
    table = collections.OrderedDict(b=x, a=Pair(x + 1, None))
    leaves, tree = jax.tree.flatten([table, (x, {"k": 2})])
    return leaves, tree.unflatten(leaves), jax.tree.structure(table) == jax.tree.structure(table)


def of_a_leaf(x):
    stack = Stack([x, 1])
    return len(jax.tree.leaves(stack)), jax.tree.leaves({"a": collections.deque([x])})[0][0]


def test_trees_of_new_objects():
    x = jnp.arange(3.0)
    check_one_graph(of_classes, (x,), (-x,))
    check_one_graph(of_containers, (x,), (-x,))
    check_one_graph(of_a_leaf, (x,), (-x,))
