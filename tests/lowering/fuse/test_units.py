"""lowering.fuse.units: who makes a buffer, also once two kernels have become one."""

import numpy as np

from dynacomp.lowering.fuse.groups import Group
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.fuse.units import Units
from dynacomp.lowering.kernel_ir.loops import Const

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
