"""What existing code can read of changes: what existed, and what was made and stored there, however indirectly."""

import pytest

from dynacomp.capture.symbolic.escapes import Escapes
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV


class Effects:
    def __init__(self):
        self.mutated, self.globals, self.called = [], [], []

    def stored(self):
        return self.globals

    def operands(self):
        return self.called


@pytest.fixture
def effects():
    return Effects()


@pytest.fixture
def existing():
    return DictV({}, real={})


def test_what_nobody_else_holds_changes_unseen(effects):
    made, escapes = ListV([Const(1)]), Escapes()
    effects.mutated += [made, made]
    assert not escapes.changed(effects) and not escapes.escaped


def test_what_existed_changes_once(effects, existing):
    escapes = Escapes()
    effects.mutated.append(existing)
    assert escapes.changed(effects) and not escapes.changed(effects)


@pytest.mark.parametrize("wrapped", [lambda v: v, lambda v: ListV([v]), lambda v: DictV({"a": ListV([v, v])})])
def test_what_was_stored_there_is_seen_to_change(effects, existing, wrapped):
    made, other, escapes = ListV([]), ListV([]), Escapes()
    existing.items["made"] = wrapped(made)
    effects.mutated.append(existing)
    assert escapes.changed(effects)
    effects.mutated.append(other)
    assert not escapes.changed(effects)
    effects.mutated.append(made)
    assert escapes.changed(effects)
    made.items.append(other)  # it has got one that was made later
    assert not escapes.changed(effects)
    effects.mutated += [made, other]
    assert escapes.changed(effects)
    effects.mutated.append(other)
    assert escapes.changed(effects)


def test_what_a_global_or_a_noted_call_was_given_has_escaped(effects):
    stored, given, escapes = ListV([]), ListV([]), Escapes()
    effects.globals.append(stored)
    effects.called.append(given)
    effects.mutated.append(None)
    assert escapes.changed(effects) and {id(stored), id(given)} == escapes.escaped.keys()


def test_one_that_holds_itself(effects, existing):
    made, escapes = ListV([]), Escapes()
    made.items.append(made)
    existing.items["made"] = made
    effects.mutated.append(existing)
    assert escapes.changed(effects) and list(escapes.escaped) == [id(made)]
