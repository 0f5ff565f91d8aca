"""Rows of kinds: put together from their parts, inherited, each field defined once; and what holes there are."""

import types

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import values
from dynacomp.capture.calls.copies import MemoV
from dynacomp.capture.values import callables, computed, containers, frames, iterators, kind, standing, value
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.kind import KINDS, WITHOUT, Kind, define
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.value import NotConstant, as_python, is_constant, type_of


@pytest.fixture
def own_kinds(monkeypatch):
    monkeypatch.setattr(kind, "_DEFINED", dict(kind._DEFINED))
    yield
    monkeypatch.undo()
    KINDS.clear()


def test_a_row_is_put_together_of_its_parts_and_those_of_its_base(own_kinds):
    class Base(value.Value):
        pass

    class Made(Base):
        pass

    define(Base, Kind(truth=lambda cap, v: False, iter=lambda cap, v: "base"))
    assert KINDS[Made].truth(None, Made()) is False and KINDS[Made].call is None
    define(Made, Kind(truth=lambda cap, v: True))  # after it was asked for
    define(Made, Kind(call=len))
    row = kind.kind(Made())
    assert row.truth(None, None) is True and row.iter(None, None) == "base" and row.call is len
    assert KINDS[Base].call is None and KINDS[Base].truth(None, None) is False


def test_no_field_is_defined_twice(own_kinds):
    with pytest.raises(TypeError, match="Const has truth already"):
        define(Const, Kind(truth=lambda cap, v: True))


# What the program can hold, and has no attributes, or no type: stack slots, keys of dicts, the inside of `async for`.
NO_PROGRAMS = {value.Value, containers.SequenceV, value.MutableV, callables.BoundV, standing.HashedV,
               frames.HandlingV, frames.NullV, iterators.ASendV, standing.StateV}


@pytest.mark.parametrize("cls", [v for m in vars(values).values() if isinstance(m, types.ModuleType)
                                 for v in vars(m).values()
                                 if isinstance(v, type) and issubclass(v, value.Value) and v not in NO_PROGRAMS],
                         ids=lambda c: c.__name__)
def test_every_kind_that_programs_hold_has_a_type_and_most_have_attributes(cls):
    row = KINDS[cls]
    assert row.python_type is not None
    without = {computed.NumberV, standing.IdV, standing.TracedNameV, standing.TraceStateV,
               frames.TracebackV, callables.SettingV}  # attributes of those leave the graph
    assert (row.getattr is None) == (cls in without)
    assert (row.next is None) or row.iter is not None  # an iterator can be iterated over


def test_a_kind_made_of_another_may_be_without_what_that_has(own_kinds):
    class Other(DictV):
        pass

    assert KINDS[Other].parts is KINDS[DictV].parts is not None
    define(Other, Kind(parts=WITHOUT))
    assert KINDS[Other].parts is None and KINDS[DictV].parts is not None
    assert KINDS[MemoV].parts is None and KINDS[standing.PrivateV].content is None


def test_a_memo_stays_in_the_capture():
    assert as_python(DictV({})) == {} and not is_constant(MemoV({})) and KINDS[MemoV].truth is KINDS[DictV].truth
    with pytest.raises(NotConstant):
        type_of(frames.NULL)
    assert type_of(ObjectV(int)) is int


def test_the_truth_of_a_view_is_that_of_its_dict():
    def program(x, table):
        made = {}
        return x + 1 if table.keys() and not made.values() else x - 1

    compiled = dynacomp.jit(program)
    for table in ({}, {"a": 1}, {}, {"b": 2, "c": 3}):
        assert (compiled(jnp.ones(3), table) == program(jnp.ones(3), table)).all()
