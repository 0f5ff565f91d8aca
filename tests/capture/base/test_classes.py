"""Classes are asked for nothing that code of the program would answer."""

import abc
import inspect

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.base.classes import entries, module_name, mro, name_of
from dynacomp.capture.base.errors import Break

X = jnp.ones(())


class Lost(type):
    @property
    def __module__(cls):
        return 1 / 0


class Found(metaclass=Lost):
    def size(self):
        return 3


class Key:
    asked = 0

    def __hash__(self):
        return hash("size")

    def __eq__(self, other):
        Key.asked += 1
        return False


def test_the_module_of_a_class_is_not_asked_of_its_metaclass():
    def f(x):
        return x * Found().size(), Found

    assert repr(dynacomp.jit(f, backend="eager")(X)) == repr((X * 3, Found))
    assert module_name(Found) == __name__
    assert module_name(type("C", (), {"__module__": [1]})) == ""


def test_a_class_whose_namespace_has_other_keys_than_names_breaks():
    def f(x, cls):
        return x * cls().size

    def asked(run):
        cls = type("Odd", (), {Key(): 5, "size": 4})
        Key.asked = 0
        with pytest.raises(Break, match="not all strings"):
            entries(cls)
        return run(X, cls), Key.asked

    assert asked(dynacomp.jit(f, backend="eager")) == asked(f)


def test_a_class_that_is_being_made_has_no_bases_yet():
    seen = []

    class Making(type):
        def mro(cls):
            seen.append((mro(cls), dynacomp.jit(lambda x: (x + 1, getattr(cls, "late", 7)))(X)[1]))
            return type.mro(cls)

    class Made(metaclass=Making):
        late = 3

    assert seen == [((), 7)]
    assert mro(Made) == (Made, object)


class Unhashable(type):
    def __eq__(self, other):
        return type(self) is type(other) and self.parts == other.parts

    @property
    def __dict__(self):
        raise AssertionError("asked for the class's dictionary")


def test_classes_are_neither_hashed_nor_compared():

    class Made(metaclass=Unhashable):
        parts = ()

        def __init__(self):
            self.own = 1

    def asked(x):
        Made.parts = (x,)
        Made.extra = x
        del Made.extra
        return Made.parts, vars(Made()), isinstance(Made(), Made)

    assert dynacomp.jit(asked)(3) == asked(3)


def test_an_object_that_refuses_to_be_hashed_is_called():
    shown = memoryview(bytearray(2))
    with pytest.raises(TypeError, match="not callable"):
        dynacomp.jit(lambda: shown())()


def test_data_descriptors_of_the_metaclass_go_before_what_the_class_has():
    class Descriptor:
        def __get__(self, obj, owner=None):
            return "meta"

        def __set__(self, obj, value):
            raise AttributeError

    class Meta(abc.ABCMeta):
        x = property(lambda cls: 1)
        y = Descriptor()
        z = 3

    class Base(metaclass=Meta):
        x = y = z = 2

        @abc.abstractmethod
        def f(self): ...

    class Derived(Base):
        def f(self):
            return 0

        seen = []

        def __init_subclass__(cls):
            cls.seen.append((hasattr(cls, "__abstractmethods__"), inspect.isabstract(cls)))

    def look(x):
        class Made(Derived):
            f = abc.abstractmethod(lambda self: 1)

        return x, Base.x, Derived.x, Base.y, Derived.y, Base.z, Derived.z, Derived.seen[-1]

    assert dynacomp.jit(look)(1) == look(1) == (1, 1, 1, "meta", "meta", 2, 2, (False, True))


def test_names_are_read_without_asking_the_class():
    class Proxy:
        def __getattr__(self, name):
            raise AssertionError(name)

    named = Proxy()
    named.__name__ = "here"
    assert (name_of(Proxy()), name_of(named), name_of(len), name_of(object())) == ("", "here", "len", "")
