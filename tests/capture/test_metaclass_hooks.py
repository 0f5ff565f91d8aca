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


class Plainly(type):
    """Hands everything on to `type`."""

    def __getattribute__(cls, name):
        return super().__getattribute__(name)

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)

    def __getattr__(cls, name):
        return 7.0


class Settings(metaclass=Plainly):
    scale, steps, n = 2.0, [1], 0

    @classmethod
    def scaled(cls, x):
        return x * cls.scale


class Inherited(Settings):
    pass


def counts(x):
    Settings.n = Settings.n + 1
    return x * Settings.n


@pytest.mark.parametrize("fn", [
    lambda x: x * Settings.scale, lambda x: x * Inherited.scale + Settings.nowhere, lambda x: x * sum(Settings.steps),
    lambda x: Settings.scaled(x) + Inherited.scaled(x), lambda x: x + len(Settings.__name__), counts,
    lambda x: x * type.__getattribute__(Settings, "scale")])
def test_what_type_itself_finds_for_a_metaclass_is_no_constant(fn):
    """Functions in C without a `__self__` were taken for methods of None, and called while a function was captured."""
    before = {name: vars(Settings)[name] for name in ("scale", "steps", "n")}
    dynacomp.reset()
    compiled, x = dynacomp.jit(fn, backend="eager"), jnp.ones(2)
    try:
        for i in range(8):
            got = []
            for call in (fn, compiled):
                Settings.scale, Settings.steps, Settings.n = 2.0 + i, [1] * (i + 1), i
                Settings.__name__ = "Settings"[:1 + i % 3]
                got.append((repr(call(x)), Settings.n))
            assert got[0] == got[1]
    finally:
        for name, value in {**before, "__name__": "Settings"}.items():
            setattr(Settings, name, value)
    assert dynacomp.stats()["frames_captured"] and not dynacomp.stats()["breaks"]


class Asked(type):
    def __getitem__(cls, key):
        return key * cls.n


class Asking(metaclass=Asked):
    n = 2


def test_what_a_metaclass_gives_for_a_subscript_is_that_of_each_call():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: x * Asking[2], backend="eager")
    try:
        for n in (2, 2, 1, 4, 5, 2):
            Asking.n = n
            assert compiled(jnp.ones(2)).tolist() == [2 * n] * 2
    finally:
        Asking.n = 2
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]
