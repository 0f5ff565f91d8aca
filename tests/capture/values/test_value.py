"""Values: the object that one stands for, and those that stand for none."""

import collections

import pytest

from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, SliceV, TupleV, ViewV
from dynacomp.capture.values.frames import NULL
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.standing import HashedV
from dynacomp.capture.values.value import Lazy, NotConstant, as_python, is_constant, type_of

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("value, obj", [
    (Const(3), 3), (TupleV([Const(1), Const("a")]), (1, "a")), (TupleV([Const(1), Const(2)], Point), Point(1, 2)),
    (ListV([Const(1), TupleV([])]), [1, ()]), (ListV([Const(1)], collections.deque), collections.deque([1])),
    (DictV({"a": Const(1), 2: ListV([])}), {"a": 1, 2: []}), (SetV({1, 2}), {1, 2}),
    (SetV({1}, frozenset), frozenset({1})), (SliceV(Const(1), Const(None), Const(2)), slice(1, None, 2))],
    ids=lambda x: type(x).__name__)
def test_the_object_that_a_constant_stands_for(value, obj):
    found = as_python(value)
    assert found == obj and type(found) is type(obj) is type_of(value) and is_constant(value)


@pytest.mark.parametrize("value", [
    NULL, ObjectV(int), TupleV([ObjectV(int)]), ListV([Const(1), Lazy(2, S.Local(0, "x"))]),
    DictV({"a": ObjectV(int)}), DictV({"a": Const(1)}, collections.OrderedDict), ViewV(DictV({}), "keys"),
    DictV({HashedV(Const(1), 1, lambda a, b: True): Const(2)}), FunctionV((lambda: 0).__code__, {}, "f", "f")],
    ids=lambda x: type(x).__name__)
def test_what_is_no_constant(value):
    assert not is_constant(value)
    with pytest.raises(NotConstant):
        as_python(value)
