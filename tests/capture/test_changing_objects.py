"""Objects that are known by their identity and change all the same; and objects whose code capture must not run."""

import array
import datetime
import enum
import importlib
import inspect
import itertools
import operator
import sys
import types

import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.ones(())
content, table = bytearray(b"ab"), {"a": 1}
space, numbers = types.SimpleNamespace(a=1), array.array("i", [1, 2])
view, shown = memoryview(content), types.MappingProxyType(table)


class Kept:
    a = 1


READS = [
    (lambda: space.a, lambda n: setattr(space, "a", n)),
    (lambda: repr(space), lambda n: setattr(space, "a", -n)),
    (lambda: numbers[0], lambda n: operator.setitem(numbers, 0, n)),
    (lambda: (len(numbers), bool(numbers), str(numbers), f"{numbers}"), lambda n: numbers.append(n)),
    (lambda: 77 in numbers, lambda n: numbers.append(75 + n)),
    (lambda: view[0], lambda n: operator.setitem(content, 0, n)),
    (lambda: (view == b"\2b", bytes(view)), lambda n: operator.setitem(content, 0, n)),
    (lambda: (shown["a"], len(shown)), lambda n: table.update({"a": n, n: n})),
    (lambda: vars(Kept)["a"], lambda n: setattr(Kept, "a", n)),
    (lambda: Kept.__dict__.get("b"), lambda n: setattr(Kept, "b", n)),
]


@pytest.mark.parametrize("number", range(len(READS)))
def test_what_changes_is_read_again(number):
    read, change = READS[number]
    compiled = dynacomp.jit(lambda x: (read(), x + 1))
    for n in range(1, 4):
        assert compiled(X)[0] == read()
        change(n)
    assert compiled(X)[0] == read()


def test_a_class_attribute_that_only_the_captured_code_had():
    class Slotted:
        __slots__ = ("a",)

    def made_and_deleted(obj, x):
        obj.a = 1
        del obj.a
        return hasattr(obj, "a"), x

    for obj in (Slotted(), Kept()):
        vars(obj).pop("a", None) if obj.__class__ is Kept else None
        assert dynacomp.jit(made_and_deleted)(obj, X)[0] is (obj.__class__ is Kept)


def test_a_descriptor_that_only_stores():
    class Doubled:
        def __set__(self, obj, value):
            vars(obj)["a"] = 2 * value

    class Holder:
        a = Doubled()

    def stored(x):
        obj = Holder()
        before = obj.a
        obj.a = 21
        return before is vars(Holder)["a"], obj.a, x

    assert dynacomp.jit(stored)(X)[:2] == (True, 42)


def test_nobody_is_asked_for_a_class():
    asked = []

    class Shy:
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    shy, held = Shy(), [Shy()]
    compiled = dynacomp.jit(lambda obj, items, x: (obj is items[0], x + 1))
    for _ in range(2):
        assert compiled(shy, held, X)[0] is False
    assert not asked


def test_a_module_with_hooks_of_its_own():
    log = []

    class Logged(types.ModuleType):
        def __getattribute__(self, name):
            log.append(name)
            return types.ModuleType.__getattribute__(self, name)

    module, plain = Logged("logged"), types.ModuleType("plain")
    types.ModuleType.__setattr__(module, "a", 1)
    plain.__getattr__ = lambda name: log.append(name) or name.upper()
    compiled = dynacomp.jit(lambda x: (module.a, plain.late, x + 1))
    for n in range(1, 3):
        assert compiled(X)[:2] == (1, "LATE")
        assert log == ["a", "late"] * n
    plain.late = 3
    assert compiled(X)[:2] == (1, 3)


@pytest.mark.medium
def test_an_iterator_without_an_end():
    def hinted(x):
        return operator.length_hint(itertools.repeat(None, times=5)), operator.length_hint(itertools.count()), x

    assert dynacomp.jit(hinted)(X)[:2] == hinted(X)[:2]


def test_the_hash_of_a_nan_is_its_own():
    nan = float("nan")
    compiled = dynacomp.jit(lambda value, x: (hash(value), x + 1))
    assert compiled(nan, X)[0] == hash(nan)
    other = float("nan")
    assert compiled(other, X)[0] == hash(other)


def test_entries_behind_a_property():
    class Behind:
        @property
        def a(self):
            return -vars(self)["a"]

        @a.setter
        def a(self, value):
            vars(self)["a"] = value + 1

    def changed(obj, x):
        fresh = Behind()
        fresh.a, obj.a = 5, 6
        obj.a += 10
        if obj.a > 0:
            del vars(obj)["a"]
        return fresh, obj.a, x

    for obj in (Behind(), Behind()):
        fresh, a, _ = dynacomp.jit(changed)(obj, X)
        assert (fresh.a, vars(fresh), a, vars(obj)) == (-6, {"a": 6}, -4, {"a": 4})


@pytest.mark.parametrize("ask", [
    lambda box: box.kind == LEFT, lambda box: box.kind != LEFT, lambda box: box.kind in (LEFT, RIGHT),
    lambda box: [LEFT, RIGHT].index(box.kind) if box.kind in [LEFT, RIGHT] else None,
    lambda box: [box.kind] == [LEFT], lambda box: {"a": box.kind} == {"a": RIGHT}])
def test_objects_that_are_equal_when_they_are_one(ask):
    compiled, box = dynacomp.jit(lambda box, x: (ask(box), x + 1)), types.SimpleNamespace
    boxes = []
    for kind in (Kept(), LEFT, RIGHT, Kept(), LEFT):
        box = Kept()
        box.kind = kind
        boxes.append(box)
        assert compiled(box, X)[0] == ask(box)


LEFT, RIGHT = Kept(), Kept()


def test_class_patterns():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

        @property
        def broken(self):
            raise ValueError("broken")

    class Number(int):
        pass

    def matched(value, x):
        try:
            match value:
                case Point(1, y=2):
                    return "12", x
                case Number(n):
                    return n, x
                case Point(a, b, c):
                    return (a, b, c), x
                case Point(broken=b):
                    return b, x
        except (TypeError, ValueError) as error:
            return str(error), x
        return None, x

    compiled = dynacomp.jit(matched)
    for value in (Point(1, 2), Number(3), Point(2, 2), 5):
        assert compiled(value, X)[0] == matched(value, X)[0]
    Point.__match_args__ = ("y", "x")
    assert compiled(Point(2, 1), X)[0] == matched(Point(2, 1), X)[0]


def test_an_import_of_what_is_not_there_yet(tmp_path, monkeypatch):
    (tmp_path / "pack_of_test").mkdir()
    (tmp_path / "pack_of_test" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("pack_of_test")

    (tmp_path / "pack_of_test" / "late.py").write_text("a = 1")
    importlib.invalidate_caches()

    @dynacomp.jit
    def imported(x):
        import pack_of_test.late as same  # noqa: PLC0415
        from pack_of_test import late  # noqa: PLC0415
        return late.a, same is late, x

    assert imported(X)[:2] == (1, True)
    other = types.ModuleType("pack_of_test.late")
    other.a = 5
    monkeypatch.setitem(sys.modules, "pack_of_test.late", other)
    monkeypatch.setattr(sys.modules["pack_of_test"], "late", other)
    assert imported(X)[:2] == (5, True)


def test_too_many_new_objects():
    def many(x):
        made = [[n] for n in range(20_000)]
        dynacomp.graph_break()
        return len(made), x

    assert dynacomp.jit(many)(X)[0] == 20_000


def test_what_cannot_be_unpacked():
    def unpacked(value, x):
        try:
            a, b = value
        except TypeError as error:
            return str(error), x
        return a + b, x

    compiled = dynacomp.jit(unpacked)
    for value in (Kept(), 3, (1, 2), None):
        assert compiled(value, X)[0] == unpacked(value, X)[0]


def test_another_signature_is_another():
    def shown(signature, x):
        return str(signature), x

    compiled = dynacomp.jit(shown)
    for fn in (lambda a: a, lambda b=1: b, shown):
        assert compiled(inspect.signature(fn), X)[0] == str(inspect.signature(fn))


FIRST_DAY = datetime.date(2020, 1, 1)


@pytest.mark.parametrize("ask", [lambda a, b: a is b, lambda a, b: b is not a, lambda a, b: b is FIRST_DAY])
def test_one_object_and_many_others(ask):
    days = [FIRST_DAY, *(datetime.date(2020, 1, n) for n in range(2, 9))]
    compiled = dynacomp.jit(ask, backend="eager")
    for day in (*days, FIRST_DAY, *days[::-1], FIRST_DAY):
        assert compiled(FIRST_DAY, day) is ask(FIRST_DAY, day)


class Colour(enum.Enum):
    RED = 1
    BLUE = [2]

    def __init__(self, content):
        self.shown = content

    @property
    def doubled(self):
        return self.value * 2


def test_what_a_member_keeps_may_change(monkeypatch):
    def program():
        red = Colour.RED
        return red.value, red.shown, red.doubled, red.name, red.__dict__["_value_"], [m.value for m in Colour]

    compiled = dynacomp.jit(program, backend="eager")
    assert compiled() == program() == (1, 1, 2, "RED", 1, [1, [2]])
    monkeypatch.setattr(Colour.RED, "_value_", 7)
    monkeypatch.setattr(Colour.RED, "shown", 3)
    Colour.BLUE.value.append(5)
    assert compiled() == program() == (7, 3, 14, "RED", 7, [7, [2, 5]])
