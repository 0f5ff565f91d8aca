"""Changes that can be taken back: every kind of mutable Value comes back as it was, and goes forward again."""

import pytest

from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.iterators import CountIterV, SeqIterV, StreamV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV

A, B, C = Const("a"), Const("b"), Const("c")


def _append(v):
    v.items.append(C)
    v.dirty = True


def _grow(v):
    v.items["z"] = C
    v.items.pop("k")


def _write(v):
    v.attrs["x"], v.attrs["y"] = C, DELETED
    v.written.add("x")


def _set(name, value):
    return lambda v: setattr(v, name, value)


CHANGES = {
    "list": (lambda: ListV([A, B]), _append), "dict": (lambda: DictV({"k": A}), _grow),
    "set": (lambda: SetV({1, 2}), lambda v: v.items.discard(1)),
    "object": (lambda: ObjectV(int, attrs={"x": A}), _write),
    "cell": (lambda: CellV(A), _set("content", B)), "empty cell": (CellV, _set("content", B)),
    "iterator": (lambda: SeqIterV(TupleV([A, B])), _set("index", 1)),
    "count": (lambda: CountIterV(Const(0), Const(9), Const(1)), _set("current", Const(3))),
    "stream": (lambda: StreamV("zip", []), lambda v: v.state.update(at=2)),
}


def seen(value):
    """What tells states apart; containers are copied, Values are themselves."""
    return {name: (type(held), list(held.items()) if isinstance(held, dict) else list(held) if isinstance(
        held, (list, set)) else held) for name, held in vars(value).items()}


class Body:
    def __init__(self):
        self.saved = {}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_side_changed_is_taken_back_and_can_be_put_there_again(name):
    make, change = CHANGES[name]
    value, body = make(), Body()
    before = seen(value)
    assert undo_log.is_mutable(value)
    undo_log.save(body, value)
    undo_log.save(body, value)  # the first one counts
    change(value)
    after = seen(value)
    assert after != before
    states = undo_log.take_back(body)
    assert seen(value) == before
    with undo_log.in_state(value, states[value]):
        assert seen(value) == after
    assert seen(value) == before
    undo_log.restore(value, states[value])
    assert seen(value) == after


@pytest.mark.parametrize("name", ["list", "dict", "object", "cell", "count"])
def test_parts_are_the_values_in_it_and_can_be_others(name):
    value = CHANGES[name][0]()
    shape, held = undo_log.parts(value)
    undo_log.put(value, [C for _ in held])
    assert undo_log.parts(value) == (shape, [C for _ in held]) and held


def test_a_copy_lives_on_its_own():
    value = ListV([A])
    made = undo_log.clone(value)
    made.items.append(B)
    assert value.items == [A] and made.items == [A, B] and made.serial > value.serial


def test_what_cannot_be_taken_back_breaks():
    shown = ObjectV(int)
    shown.view = DictV({})
    for value in (shown, FunctionV((lambda: 0).__code__, {}, "f", "f")):
        with pytest.raises(Break, match="that one side changes"):
            undo_log.snapshot(value)
    spoiled = SeqIterV(TupleV([A]))
    kind(spoiled).spoil(spoiled)
    with pytest.raises(Break, match="further on one side"):
        spoiled.seq.items  # noqa: B018


@pytest.mark.parametrize("name", ["list", "dict", "object", "cell", "set", "iterator"])
def test_a_watch_tells_what_differs_in_the_end(name):
    make, change = CHANGES[name]
    older, watch = make(), undo_log.Watch()
    newer = make()
    for value in (older, newer):
        watch.note(value)
    assert list(watch.before) == [older]
    change(newer)
    change(older)
    assert watch.changed


def test_what_is_put_back_does_not_differ():
    stack, names, cell, watch = ListV([A]), DictV({"k": A}), CellV(A), undo_log.Watch()
    for value in (stack, names, cell):
        watch.note(value)
    stack.items.append(B)
    names.items["more"] = B
    cell.content = B
    assert watch.changed
    stack.items.pop()
    del names.items["more"]
    cell.content = Const(A.value)
    assert not watch.changed
    watch.outside = True
    assert watch.changed
