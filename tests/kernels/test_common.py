"""The units that an installation compiles ahead are those that programs ask for."""

from dynacomp.kernels.common import CALLS, F32, units
from dynacomp.kernels.templates import TEMPLATES


def test_each_unit_is_one_of_a_templates_and_there_once():
    found = units()
    assert len(set(found)) == len(found) and all(text.strip() for text in found)
    assert {name for name, _, _ in CALLS} <= TEMPLATES.keys()
    assert set(TEMPLATES["matmul"].instances({}, (F32, F32, F32))) <= set(found)
