"""lowering.fuse.units: who makes a buffer, also once two kernels have become one."""

import numpy as np

from dynacomp.lowering.fuse.groups import Group
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.fuse.units import Units
from dynacomp.lowering.kernel_ir.loops import Const
from tests.lowering.closed import scheduled

F32 = np.dtype("float32")


def item(name, target=""):
    return Item(name, "point", (), F32, (), Const(0.0, F32), target=target)


def test_an_array_made_in_parts_belongs_to_the_kernel_that_its_parts_have_joined():
    """A reader of the array was put before the kernel that made it: it read what nobody had written."""
    units, part, other = Units(None), item("a_part0", "a"), item("b")
    units.new(("a", "a_part0"), set(), Group([part], {"a_part0": []}, False))
    units.new(("b",), set(), Group([other], {"b": []}, False))
    units.merge(0, 1, Group([part, other], {"a_part0": [], "b": []}, False))
    assert units.of == {"a": 1, "a_part0": 1, "b": 1}
    assert [u.number for u in units.ordered()] == [1]


def test_what_nothing_reads_is_no_step():
    """An update that stores to the whole array reads none of those before it; their steps wrote to what nobody had
    made, or to an input."""
    make = lambda x, i: x.at[i].multiply(3, mode="clip").at[::2].set(-1)
    made = scheduled(make, np.ones((1, 64), np.int8), np.zeros(3, np.int32))
    assert [step.kernel.inputs for step in made.steps] == [()]
