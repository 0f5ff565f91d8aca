"""Checks of metaclasses that look at the class alone are answered once for a class; all others for each object."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.calls import class_checks
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)
KNOWN, SEEN = [], []


class ByClass(type):
    def __instancecheck__(cls, obj):
        if super().__instancecheck__(obj):
            return True
        return isinstance(obj, (list, Marked)) and hasattr(type(obj), "__iter__")


class ByContent(type):
    def __instancecheck__(cls, obj):
        return isinstance(obj, Marked) and obj.mark > 1


class ByRegistry(type):
    def __instancecheck__(cls, obj):
        return type(obj) in KNOWN


class Noting(type):
    def __instancecheck__(cls, obj):
        SEEN.append(obj)
        return type(obj) is Marked


class Marked:
    def __init__(self, mark):
        self.mark = mark

    def __iter__(self):
        return iter(())


class Telling(Marked):
    @property
    def __class__(self):
        return list if self.mark > 1 else Marked


class Thing(metaclass=ByClass):
    pass


class High(metaclass=ByContent):
    pass


class Registered(metaclass=ByRegistry):
    pass


class Noted(metaclass=Noting):
    pass


@pytest.fixture
def asked(monkeypatch):
    """The classes for which a check is run with a stand-in, and what came of it."""
    found, real = [], class_checks._of_any

    def of_any(cap, cls, ask):
        answer = real(cap, cls, ask)
        found.append((cls.__name__, answer))
        return answer

    monkeypatch.setattr(class_checks, "_of_any", of_any)
    return found


def test_a_check_of_the_class_is_run_once_for_a_class(asked):
    def program(x, marks):
        things = [*map(Marked, marks), Thing(), Thing(), 1, 2, "a", "b", None, None, [x], [], (x,), (), {}, {1: 2}]
        return x + 1, [isinstance(v, Thing) for v in things]

    check_one_graph(program, (X, [1, 2, 3]))
    assert sorted(asked) == sorted({"Marked": True, "int": False, "str": False, "NoneType": False, "list": True,
                                    "tuple": False, "dict": False}.items())


def test_what_looks_at_an_object_is_asked_of_each(asked):
    check_one_graph(lambda x, marks: (x + 1, [isinstance(v, High) for v in (*map(Marked, marks), 3, 4)]),
                    (X, [1, 2, 3]), (X, [3, 1, 1]), captures=2)
    assert asked == [("Marked", None), ("int", False)] * 2


def test_an_object_that_tells_its_class_is_asked(asked):
    check_one_graph(lambda x, marks: (x + 1, [isinstance(Telling(m), Thing) for m in marks]), (X, [1, 2, 1]))
    assert not asked


def test_an_answer_ends_when_something_changes_that_the_check_may_read():
    def program(x):
        found = [isinstance(1, Registered), isinstance("", Registered), isinstance(2, Registered)]
        KNOWN.append(int)
        found += [isinstance(1, Registered), isinstance("", Registered)]
        KNOWN.pop()
        return x + 1, [*found, isinstance(2, Registered)]

    KNOWN[:] = [str]
    check_one_graph(program, (X,))


def test_what_existed_may_change_on_one_side_of_a_condition():
    def program(x):
        before = isinstance(1, Registered)
        if x.sum() > 0:
            KNOWN.append(int)
            y = x + isinstance(1, Registered)
            KNOWN.pop()
        else:
            y = x - isinstance(1, Registered)
        return y, before, isinstance(1, Registered)

    KNOWN[:] = [str]
    for x in (X, -X):
        for fn in (program, dynacomp.jit(program, backend="eager")):
            y, *rest = fn(x)
            assert rest == [False, False] and jnp.array_equal(y, x + (x.sum() > 0)) and KNOWN == [str]


def test_a_check_that_notes_what_it_is_given_notes_the_objects(asked):
    def program(x, marks):
        del SEEN[:]
        return x + 1, [isinstance(v, Noted) for v in (*map(Marked, marks), 3, 3)], [type(v) for v in SEEN]

    check_one_graph(program, (X, [1, 2]))
    assert len(asked) <= 1 and [type(v) for v in SEEN] == [Marked, Marked, int, int]
