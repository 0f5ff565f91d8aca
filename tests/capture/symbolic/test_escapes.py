"""What existing code can read of changes: what existed, and what was made and stored there, however indirectly."""

import pytest

from dynacomp.capture.symbolic.escapes import Escapes
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.value import next_serial


class Effects:
    def __init__(self):
        self.mutated, self.serials, self.globals, self.called = [], [], [], []

    def change(self, *values):
        for value in values:
            self.mutated.append(value)
            self.serials.append(next_serial())

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
    effects.change(made, made)
    assert not escapes.changed(effects) and not escapes.escaped


def test_what_existed_changes_once(effects, existing):
    escapes = Escapes()
    effects.change(existing)
    assert escapes.changed(effects) and not escapes.changed(effects)


@pytest.mark.parametrize("wrapped", [lambda v: v, lambda v: ListV([v]), lambda v: DictV({"a": ListV([v, v])})])
def test_what_was_stored_there_is_seen_to_change(effects, existing, wrapped):
    made, other, escapes = ListV([]), ListV([]), Escapes()
    existing.items["made"] = wrapped(made)
    effects.change(existing)
    assert escapes.changed(effects)
    effects.change(other)
    assert not escapes.changed(effects)
    effects.change(made)
    assert escapes.changed(effects)
    made.items.append(other)  # it has got one that was made later
    assert not escapes.changed(effects)
    effects.change(made, other)
    assert escapes.changed(effects)
    effects.change(other)
    assert escapes.changed(effects)


def test_what_a_global_or_a_noted_call_was_given_has_escaped(effects):
    stored, given, other, escapes = ListV([]), ListV([]), ListV([]), Escapes()
    effects.globals.append(stored)
    effects.called.append(given)
    effects.change(None)
    assert escapes.changed(effects)
    for value in (stored, given, other):
        effects.change(value)
        assert escapes.changed(effects) == (value is not other)


def test_one_that_holds_itself(effects, existing):
    made, escapes = ListV([]), Escapes()
    made.items.append(made)
    existing.items["made"] = made
    effects.change(existing)
    assert escapes.changed(effects)
    effects.change(made)
    assert escapes.changed(effects) and list(escapes.escaped) == [id(made)]


def test_what_is_made_later_escapes_through_one_that_has_escaped(effects, existing):
    made, escapes = ListV([]), Escapes()
    existing.items["made"] = made
    effects.change(existing)
    assert escapes.changed(effects)
    later = ListV([])
    made.items.append(later)
    effects.change(made, existing)  # asked of both at once: nobody looks at `made`
    assert escapes.changed(effects)
    effects.change(later)
    assert escapes.changed(effects)


def test_what_is_made_after_all_changes_is_looked_at_by_nobody(effects, existing):
    escapes = Escapes()
    effects.change(existing)
    assert escapes.changed(effects)
    effects.change(ListV([]))
    assert not escapes.changed(effects) and escapes.holders


def test_a_chain_in_one_stretch(effects, existing):
    """`existing` gets `made`, `made` gets `later`, which was made in between, and both are asked of at once."""
    made, escapes = ListV([]), Escapes()
    existing.items["made"] = made
    effects.change(existing)
    later = ListV([])
    made.items.append(later)
    effects.change(made)
    assert escapes.changed(effects)
    last = ListV([])
    later.items.append(last)
    effects.change(later)
    assert escapes.changed(effects)
    effects.change(last)
    assert escapes.changed(effects)
