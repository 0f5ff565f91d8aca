"""`reconstruct.structures`: the structure of a tree that leaves the capture keeps the objects of the call."""

import dataclasses

import jax
import jax.numpy as jnp

import dynacomp
from dynacomp.capture.reconstruct.structures import Slot, emptied, filled


class Axis:
    """Told apart by its identity alone."""


@jax.tree_util.register_pytree_node_class
class Named:
    def __init__(self, x, axes):
        self.x, self.axes = x, axes

    def tree_flatten(self):
        return (self.x,), {"axes": self.axes, "more": [self.axes]}

    @classmethod
    def tree_unflatten(cls, kept, children):
        return cls(children[0], kept["axes"])


@dataclasses.dataclass(eq=False)
class Record:
    first: object
    rest: tuple


def test_slots_stand_for_objects_at_any_depth():
    one, two = Axis(), Axis()
    tree = [Named(1, (one, "x")), {"b": Named(2, two)}, (None, 3)]
    structure = jax.tree.structure(tree)
    empty, values = emptied(structure, {id(one): ("first", one), id(two): ("second", two)})
    assert values == ["first", "second"] and "Slot" in str(empty)
    assert filled(empty, (one, two)) == structure and filled(empty, (two, one)) != structure
    assert emptied(structure, {}) == (structure, [])


def test_records_of_libraries_are_copied():
    axis = Axis()
    record = Record(axis, (1, axis))
    empty, _ = emptied(jax.tree.structure(Named(1, record)), {id(axis): (axis, axis)})
    kept = empty.node_data()[1]["axes"]
    assert (kept.first, kept.rest) == (Slot(0), (1, Slot(0))) and record.first is axis


def across_a_break(x, given):
    new = Axis()
    structure = jax.tree.structure([Named(x, (given, new)), Named(x, given)])
    before = jax.tree.unflatten(structure, [x, x])
    print("a break")
    after = jax.tree.unflatten(structure, [x * 2, x])
    same = structure == jax.tree.structure([Named(x, (given, new)), Named(x, given)])
    return [after[0].axes[0] is given, after[0].axes[1] is new, before[0].axes[1] is new, after[1].axes is given,
            same, structure == jax.tree.structure([Named(x, (given, Axis())), Named(x, given)])], after[0].x


def test_a_structure_that_leaves_keeps_the_objects_of_the_call(capsys):
    compiled = dynacomp.jit(across_a_break)
    for n in range(4):
        held, x = compiled(jnp.arange(3.0) + n, Axis())
        assert held == [True] * 5 + [False] and (x == 2 * (jnp.arange(3.0) + n)).all()


def as_a_key(x, given, numbers):
    leaves, structure = jax.tree.flatten(Named(x + 1, given))
    number = numbers.setdefault((structure, 0), len(numbers))
    return number, structure in {jax.tree.structure(Named(x, given)): 1}, hash(structure) == hash(structure), leaves[0]


def test_a_structure_that_keeps_objects_is_a_key_in_python():
    compiled, one, two, numbers = dynacomp.jit(as_a_key), Axis(), Axis(), {}
    found = [compiled(jnp.arange(3.0), axis, numbers)[:3] for axis in (one, two, one, two, Axis(), one)]
    assert found == [(n, True, True) for n in (0, 1, 0, 1, 2, 0)]
