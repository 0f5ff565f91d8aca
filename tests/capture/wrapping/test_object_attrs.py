"""Attributes of instances as `object.__getattribute__` finds them: whose turn it is, and what was relied on."""

import functools
import threading

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.wrapping.object_attrs import is_data_descriptor, is_librarys, refused
from tests.capture.program_kit import captured, check_one_graph

X = jnp.arange(3.0)


class Data:
    """A data descriptor: it comes before the instance's own entry."""

    def __init__(self, value):
        self.value = value

    def __get__(self, obj, cls):
        return self if obj is None else self.value

    def __set__(self, obj, value):
        obj.__dict__["noted"] = value


class Plain:
    """A descriptor without `__set__`: the instance's own entry comes first."""

    def __get__(self, obj, cls):
        return "of the class"


class Whole:
    """One of everything."""

    data, plain, number = Data(7), Plain(), 3

    def __init__(self, x):
        self.x = x
        self.__dict__["data"] = "hidden"

    @property
    def twice(self):
        return self.x * 2

    @functools.cached_property
    def once(self):
        return self.x + 100

    @classmethod
    def made(cls, x):
        return cls(x)

    @staticmethod
    def half(x):
        return x / 2

    def method(self, by):
        return self.x * by

    def __getattr__(self, name):
        if name.startswith("late"):
            return len(name)
        raise AttributeError(f"no {name}")


class Slotted:
    """Slots, one of them empty."""

    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


LOOKUPS = {
    "data": lambda o, x: (o.data, vars(o)["data"]),
    "plain": lambda o, x: (o.plain, setattr(o, "plain", 1), o.plain),
    "property": lambda o, x: o.twice, "class attribute": lambda o, x: o.number * x,
    "method": lambda o, x: o.method(3) + Whole.method(o, 2), "bound": lambda o, x: (lambda m: m(5))(o.method),
    "classmethod": lambda o, x: type(o.made(x)).__name__ + str(o.half(4)),
    "getattr": lambda o, x: (o.later, hasattr(o, "never"), getattr(o, "never", x)),
    "cached": lambda o, x: o.once + o.once, "class": lambda o, x: (o.__class__ is Whole, o.__dict__["x"]),
    "set through data": lambda o, x: (setattr(o, "data", 4), o.data, o.noted),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_whose_turn_it_is(name):
    program = lambda x: LOOKUPS[name](Whole(x), x)
    check_one_graph(program, (X,), (X + 1,))
    given = dynacomp.jit(LOOKUPS[name], backend="eager")
    for n in range(4):
        assert repr(given(Whole(X + n), X)) == repr(LOOKUPS[name](Whole(X + n), X))
    assert not dynacomp.stats()["breaks"]


def test_errors_are_pythons():
    def program(o, x):
        said = []
        for name in ("b", "c"):
            try:
                getattr(o, name)
            except AttributeError as error:
                said.append((str(error), error.name, error.obj is o or error.obj is None))
        try:
            o.c = 1
        except AttributeError as error:
            said.append(str(error))
        return said, o.a + x

    compiled, o = dynacomp.jit(program, backend="eager"), Slotted(1)
    got, want = compiled(o, X), program(o, X)
    assert [s[0] for s in got[0][:2]] == [s[0] for s in want[0][:2]] and got[0][2] == want[0][2]
    assert jnp.array_equal(got[1], want[1])


def test_a_slot_that_is_filled_later_is_seen():
    def program(o, x):
        return getattr(o, "b", 0) + o.a + x

    compiled, o = dynacomp.jit(program, backend="eager"), Slotted(1)
    for b in (None, 5, 6):
        if b is not None:
            o.b = b
        assert jnp.array_equal(compiled(o, X), program(o, X)), "an empty slot was not guarded"
    assert "L['o'].b is not set" in captured(program, Slotted(1), X).guards


def test_what_was_found_is_guarded():
    guards = captured(lambda o, x: o.twice + o.number, Whole(X), X).guards
    (line,) = (line for line in guards.split("\n") if "Whole still defines" in line)
    assert "twice" in line and "Whole.number == 3" in guards


@pytest.mark.parametrize("change", [
    lambda o, monkeypatch: monkeypatch.setattr(Whole, "number", 50),
    lambda o, monkeypatch: o.__dict__.update(number=60),
    lambda o, monkeypatch: monkeypatch.setattr(Whole, "twice", property(lambda self: self.x * 9))],
    ids=["class", "instance", "property"])
def test_what_changes_is_looked_up_again(change, monkeypatch):
    program = lambda o, x: o.twice + o.number + x
    compiled, o = dynacomp.jit(program, backend="eager"), Whole(X)
    assert jnp.array_equal(compiled(o, X), program(o, X))
    change(o, monkeypatch)
    assert jnp.array_equal(compiled(o, X), program(o, X))


def test_a_jitted_method_binds_as_functions_do():
    class Net:
        def __init__(self):
            self.w = 2.0

        @functools.partial(jax.jit, static_argnums=0)
        def run(self, x):
            return x * 3

    net = Net()
    check_one_graph(lambda x: net.run(x) + 1, (X,), (X + 1,))


def test_threads_have_their_own():
    class Local(threading.local):
        level = 1

    held = Local()

    def program(x):
        return x * held.level

    compiled, seen = dynacomp.jit(program, backend="eager"), []

    def in_thread():
        held.level = 5
        seen.append(compiled(X))

    assert jnp.array_equal(compiled(X), X)
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert jnp.array_equal(seen[0], X * 5) and jnp.array_equal(compiled(X), X)


def test_small_questions():
    assert is_data_descriptor(Data(1)) and not is_data_descriptor(Plain())
    assert is_librarys(jax.tree.map) and not is_librarys(Whole.method)
    raised = refused(Slotted, lambda probe: setattr(probe, "c", 1))
    assert "'Slotted' object has no attribute 'c'" in str(raised.value.value)
