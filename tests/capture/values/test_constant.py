"""Constants: functions known by their code, and questions that are asked of constants."""

import types

import pytest

from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, holds, is_open, open_function, peek, stands_for
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.value import type_of


def test_an_open_function_is_identified_when_something_looks_at_it():
    looked = []
    made = open_function(len, S.Local(0, "f"), lambda: looked.append(1))
    assert peek(made) is len and type_of(made) is types.BuiltinFunctionType and is_open(made) and not looked
    assert not stands_for(made, None) and stands_for(made, len) and holds(made, types.BuiltinFunctionType)
    assert not looked and made.value is len and looked == [1] and not is_open(made)
    assert made.value is len and looked == [1]
    with pytest.raises(AttributeError):
        made.nothing  # noqa: B018


def test_constants_of_a_kind():
    assert stands_for(Const(None), None) and not stands_for(Const(0), False) and not stands_for(None, None)
    assert holds(Const(True), int) and holds(Const("a"), (bytes, str)) and not holds(TupleV([]), tuple)
