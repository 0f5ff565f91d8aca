"""What the interpreter keeps of frames beside objects, as Values."""

import types

import pytest

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.frames import NULL, HandlingV, TracebackV
from dynacomp.capture.values.value import NotConstant, type_of


def test_a_traceback_entry_has_the_class_that_programs_see():
    entry = TracebackV(test_a_traceback_entry_has_the_class_that_programs_see.__code__, globals(), 2, 1, Const(None), 4)
    assert type_of(entry) is types.TracebackType and entry.last == 4


@pytest.mark.parametrize("value", [NULL, HandlingV(Const(None))])
def test_what_only_the_stack_has_is_no_object(value):
    with pytest.raises(NotConstant):
        type_of(value)
