"""What is asked about Values."""

import pytest

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_container, is_number, is_object, is_plain_tuple, own_class


class Point(tuple):
    pass


@pytest.mark.parametrize("value, answers", [
    (Const(2), (None, False, False, False, True)),
    (Const("a"), (None, False, False, False, False)),
    (ObjectV(Point), (Point, True, False, False, False)),
    (TupleV([]), (None, False, True, True, False)),
    (TupleV([], Point), (None, False, False, True, False)),
    (ListV([]), (None, False, False, True, False)),
    (DictV({}), (None, False, False, True, False)),
    (SetV(set()), (None, False, False, False, False)),
])
def test_what_is_asked(value, answers):
    asked = own_class(value), is_object(value), is_plain_tuple(value), is_container(value), is_number(value)
    assert asked == answers
