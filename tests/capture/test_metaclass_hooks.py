"""`__getattr__` of a metaclass: asked by each call, where the class has no such attribute."""

import types

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")

X = jnp.arange(2.0)


class Meta(type):
    asked: list = []

    def __getattr__(cls, name):
        Meta.asked.append(name)
        if name == "eggs":
            return "scrambled"
        if name == "count":
            return len(Meta.asked)
        raise AttributeError(f"no {name} here")


class Made(metaclass=Meta):
    there = 1

    @types.DynamicClassAttribute
    def eggs(self):
        return "spam"


class Lazy(type):
    def __getattr__(cls, name):
        value = len(name)
        setattr(cls, name, value)
        return value


def asked(x):
    return x + Made.count, Made.eggs, Made().eggs, hasattr(Made, "other"), Made.there, getattr(Made, "gone", 4)


def refused(x):
    return Made.missing


def seen(fn):
    Meta.asked.clear()
    try:
        found = repr(fn(X))
    except AttributeError as error:
        found = str(error)
    return found, list(Meta.asked)


@pytest.mark.parametrize("fn", [asked, refused], ids=lambda f: f.__name__)
def test_it_is_asked_by_each_call(fn):
    compiled = dynacomp.jit(fn)
    assert seen(compiled) == seen(fn) == seen(compiled)


def test_what_it_stores_is_found_from_then_on():
    class Kept(metaclass=Lazy):
        pass

    compiled = dynacomp.jit(lambda x: x + Kept.abc + Kept.abc)
    assert "abc" not in vars(Kept)
    for _ in range(2):
        assert repr(compiled(X)) == repr(X + 3 + 3) and vars(Kept)["abc"] == 3
