"""Values that change from call to call."""

import pytest

from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.value import as_python, type_of


def test_a_changing_number_asks_to_be_fixed():
    number = ScalarV(3, source=S.Local(0, "n"))
    with pytest.raises(NeedsConcrete) as needed:
        as_python(ListV([number]))
    assert needed.value.value is number and type_of(number) is int
