"""Values: constants and what is inside them, functions known by their code, what is read only when it is looked at."""

import collections
import types

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.symbolic import sources as S
from dynacomp.capture.symbolic import values as V
from dynacomp.capture.symbolic.frame_values import NULL
from dynacomp.capture.symbolic.standing_values import HashedV, IdV
from dynacomp.capture.symbolic.values import Const, DictV, ListV, ObjectV, ScalarV, SetV, SliceV, TupleV, ViewV

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("value, obj", [
    (Const(3), 3), (TupleV([Const(1), Const("a")]), (1, "a")), (TupleV([Const(1), Const(2)], Point), Point(1, 2)),
    (ListV([Const(1), TupleV([])]), [1, ()]), (ListV([Const(1)], collections.deque), collections.deque([1])),
    (DictV({"a": Const(1), 2: ListV([])}), {"a": 1, 2: []}), (SetV({1, 2}), {1, 2}),
    (SetV({1}, frozenset), frozenset({1})), (SliceV(Const(1), Const(None), Const(2)), slice(1, None, 2))],
    ids=lambda x: type(x).__name__)
def test_the_object_that_a_constant_stands_for(value, obj):
    found = V.as_python(value)
    assert found == obj and type(found) is type(obj) is V.type_of(value) and V.is_constant(value)


@pytest.mark.parametrize("value", [
    NULL, ObjectV(int), TupleV([ObjectV(int)]), ListV([Const(1), V.Lazy(2, S.Local(0, "x"))]),
    DictV({"a": ObjectV(int)}), DictV({"a": Const(1)}, collections.OrderedDict), ViewV(DictV({}), "keys"),
    DictV({HashedV(Const(1), 1, lambda a, b: True): Const(2)}), V.FunctionV((lambda: 0).__code__, {}, "f", "f")],
    ids=lambda x: type(x).__name__)
def test_what_is_no_constant(value):
    assert not V.is_constant(value)
    with pytest.raises(V.NotConstant):
        V.as_python(value)


def test_a_changing_number_asks_to_be_fixed():
    number = ScalarV(3, source=S.Local(0, "n"))
    with pytest.raises(V.NeedsConcrete) as needed:
        V.as_python(ListV([number]))
    assert needed.value.value is number and V.type_of(number) is int


def test_an_open_function_is_identified_when_something_looks_at_it():
    looked = []
    made = V.open_function(len, S.Local(0, "f"), lambda: looked.append(1))
    assert V.peek(made) is len and V.type_of(made) is types.BuiltinFunctionType and V.is_open(made) and not looked
    assert not V.stands_for(made, None) and V.stands_for(made, len) and V.holds(made, types.BuiltinFunctionType)
    assert not looked and made.value is len and looked == [1] and not V.is_open(made)
    assert made.value is len and looked == [1]
    with pytest.raises(AttributeError):
        made.nothing  # noqa: B018


def test_constants_of_a_kind():
    assert V.stands_for(Const(None), None) and not V.stands_for(Const(0), False) and not V.stands_for(None, None)
    assert V.holds(Const(True), int) and V.holds(Const("a"), (bytes, str)) and not V.holds(TupleV([]), tuple)


def test_a_list_is_read_when_something_looks_at_its_items():
    reads = []
    made = ListV([], unseen=lambda: reads.append(1) or [Const(1)])
    made.appended.append(Const(2))
    assert not reads and [v.value for v in made.items] == [1, 2] and [v.value for v in made.items] == [1, 2]
    assert reads == [1] and made.appended == []


def test_ids_are_those_of_their_anchors():
    one, other = object(), object()
    made = IdV(Const(one), one)
    assert made == IdV(Const(one), one) != IdV(Const(other), other) and made == id(one) != id(other)
    assert len({made, IdV(Const(one), one)}) == 1


def test_types_that_programs_see():
    def program(x, table, f):
        return x, [type(v).__name__ for v in (
            x, table, table.keys(), f, f.__call__, [].append, slice(1), range(x.shape[0]), (i for i in ()), zip(),
            enumerate([x]), map(f, ()), filter(None, []), iter(f, 0), x.sum, super, len(table), id(x), x.at)]

    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in range(2, 9):
        args = jnp.ones(n), dict.fromkeys(range(3), n), lambda: 0
        assert compiled(*args)[1] == program(*args)[1]
    assert dynacomp.stats()["breaks"] == {}
