"""Classmethods around other descriptors, and what Python says of properties without a function."""

from types import MethodType

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")


class Wrapper:
    def __init__(self, fn):
        self.fn = fn

    def __get__(self, instance, owner=None):
        return MethodType(self.fn, owner)


class Kind:
    scale = 2
    closed = property()

    def twice(cls, x):
        return x * cls.scale

    wrapped = classmethod(Wrapper(twice))
    named = classmethod(property(lambda cls: cls.__name__))
    bound = classmethod("a{}".format)

    @classmethod
    @classmethod
    def nested(cls):
        return cls.scale


def outcome(fn, *args):
    try:
        return repr(fn(*args))
    except Exception as error:
        return type(error), str(error)


def store(obj):
    obj.closed = 1


def delete(obj):
    del obj.closed


def test_they_chain_as_in_this_python():
    for fn in (lambda x: Kind.wrapped(x), lambda x: Kind().wrapped(x), lambda x: (x, Kind.named),
               lambda x: Kind.nested(),
               lambda x: (x, Kind.bound()), lambda x: Kind().closed, lambda x: store(Kind()), lambda x: delete(Kind())):
        assert outcome(dynacomp.jit(fn), jnp.ones(2)) == outcome(fn, jnp.ones(2))


ASKED = []


class Asking:
    def __get__(self, instance, owner=None):
        ASKED.append(instance)
        return len(ASKED)


class Meta(type):
    asked = Asking()


class Made(metaclass=Meta):
    pass


def test_descriptors_of_metaclasses_are_asked_once_a_call():
    compiled = dynacomp.jit(lambda x: (x + 1, Made.asked))
    assert [compiled(jnp.ones(2))[1] for _ in range(3)] == [1, 2, 3] and ASKED == [Made] * 3
