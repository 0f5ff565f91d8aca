"""`wrapping.constants`: objects that are born during a capture become Values by what they hold."""

import collections

import jax
import jax.numpy as jnp

from tests.capture.program_kit import captured, check_one_graph

Pair = collections.namedtuple("Pair", "one two")


class Box:
    def __init__(self, held):
        self.held = held


def of_python(x):
    table = dict(zip("ab", (1, 2.0)))
    return x * table["a"], table, tuple(reversed(("b", 1))), Pair(x, 3), {1, 2}


def of_libraries(x):
    leaves, tree = jax.tree.flatten({"a": x, "b": (x + 1, 2)})
    rebuilt = tree.unflatten([leaf * 2 for leaf in leaves])
    return rebuilt, jax.tree_util.Partial(jnp.add, x)(1.0)


def of_objects(x):
    boxes = [Box((x, n)) for n in range(2)]
    boxes[0].held = boxes[1].held + (x,)
    return [b.held for b in boxes]


def test_new_objects_are_what_python_makes():
    x = jnp.arange(3.0)
    for program in (of_python, of_libraries, of_objects):
        check_one_graph(program, (x,), (-x,))


def test_an_array_that_is_made_of_constants_is_one_of_the_graph():
    region = captured(lambda x: x + jnp.asarray([1.0, 2.0, 3.0]), jnp.arange(3.0))
    assert "add" in str(region.graph) and len(region.graph.placeholders) == 1
