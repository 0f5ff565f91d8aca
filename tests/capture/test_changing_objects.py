"""Objects that are known by their identity and change all the same; and objects whose code capture must not run."""

import array
import itertools
import operator
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
