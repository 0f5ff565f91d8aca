"""Checks of metaclasses that look at the class alone are answered once for a class; all others for each object."""

import jax
import jax.numpy as jnp
import pytest
from jax._src import core

import dynacomp
from dynacomp.capture.calls import class_checks
from dynacomp.capture.values.value import existing
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
        found.append((cls.__name__, answer and existing(answer)))
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


REGISTRY = {Marked: "marked", int: "number"}


def is_registered(x):
    return type(x) in REGISTRY or isinstance(x, tuple)


def registered_as(x):
    if isinstance(x, bytes):
        return None
    return REGISTRY.get(type(x), KNOWN)


def is_high(x):
    return isinstance(x, Marked) and x.mark > 1


def noted(x):
    SEEN.append(x)
    return type(x) is int


def is_under_transformation(x):
    return not core.trace_state_clean() and type(x) is int


@pytest.mark.parametrize("question", [is_registered, registered_as], ids=["constant", "existing"])
def test_a_function_of_the_class_is_entered_once_for_a_class(asked, question):
    def program(x, marks):
        made = [*map(Marked, marks)]
        things = [*made, 1, 2, "a", None, x, *range(20), (1,), (), "b", None, 3.0, 4.0, *made]
        return x + 1, [question(v) for v in things]

    check_one_graph(program, (X, [1, 2, 3]))
    told = [found for found in asked if found[0] != "NoneType"]
    assert {name for name, answer in told if answer is not None} >= {"int", "str", "Marked", "float", "tuple"}
    assert len(told) == len({name for name, _ in told})


def test_a_function_that_looks_at_its_argument_is_entered_for_each(asked):
    check_one_graph(lambda x, marks: (x + 1, [is_high(v) for v in map(Marked, marks * 8)]),
                    (X, [1, 2, 3]), (X, [3, 1, 1]), captures=2)
    assert set(asked) == {("Marked", None)}


def test_an_answer_of_a_function_ends_when_what_it_may_read_changes():
    def program(x):
        found = [is_registered(v) for v in [1.0, 2.0] * 8]
        REGISTRY[float] = "float"
        found += [is_registered(v) for v in (1.0, 2.0, "")]
        del REGISTRY[float]
        return x + 1, [*found, is_registered(3.0)]

    check_one_graph(program, (X,))


def test_a_function_that_notes_what_it_is_given_is_entered_for_each(asked):
    def program(x, marks):
        del SEEN[:]
        return x + 1, [noted(v) for v in (*marks, *map(Marked, marks))], [type(v) for v in SEEN]

    check_one_graph(program, (X, list(range(10))))
    assert not asked


def test_an_answer_holds_in_the_transformed_function_that_it_was_given_in():
    def program(x):
        inside = []

        def loss(x):
            inside.append([is_under_transformation(v) for v in range(12)])
            return x.sum()

        before = [is_under_transformation(v) for v in range(12)]
        return jax.grad(loss)(x), before, inside, [is_under_transformation(v) for v in range(12)]

    expected, made = program(X), dynacomp.jit(program, backend="eager")
    for _ in range(2):
        got = made(X)
        assert jnp.array_equal(got[0], expected[0]) and got[1:] == expected[1:]


def mark_of_registered(x):
    return REGISTRY["made"].mark.mark


def test_an_answer_ends_when_what_was_made_and_stored_changes():
    def program(x):
        made = Marked(Marked(1))
        REGISTRY["made"] = made
        found = [mark_of_registered(v) for v in range(10)]
        made.mark.mark = 2
        found += [mark_of_registered(v) for v in range(3)]
        inner = Marked(3)
        made.mark = inner
        found += [mark_of_registered(v) for v in range(3)]
        inner.mark = 4
        return x + 1, [*found, mark_of_registered(0)], REGISTRY.pop("made").mark.mark

    check_one_graph(program, (X,))


def precision(x):
    return jax.config.jax_default_matmul_precision


def test_an_answer_holds_under_the_settings_that_it_was_given_under():
    def program(x):
        before = [precision(v) for v in range(10)]
        with jax.default_matmul_precision("float32"):
            inside = [precision(v) for v in range(10)]
        return x + 1, before, inside, precision(0)

    check_one_graph(program, (X,))


def epsilon(dtype):
    return 1e-2 if jnp.float16 == dtype else 1e-5


def test_a_librarys_function_that_is_given_its_argument_asks_for_more():
    def program(x):
        return x + 1, [epsilon(v.dtype) for v in (x, x.astype("float16")) for _ in range(10)]

    check_one_graph(program, (X,))
