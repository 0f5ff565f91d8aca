"""What a capture looked up in a class is guarded: found, absent, behind `super()`, in the metaclass, kept in C."""

import gc
import itertools
import types
import weakref

import equinox.internal as eqxi
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.ones(())


def fresh():
    class Meta(type):
        def meta(cls):
            return 1

    class Base:
        def twice(self):
            return 2

    class Middle(Base):
        pass

    class Thing(Middle, metaclass=Meta):
        def twice(self):
            return super().twice()

    return Thing, Middle, Base, Meta


def absent(t):
    return getattr(t, "late", 0)


def absent_in_instance(t):
    return hasattr(t(), "late")


def calls_meta(t):
    return t.meta()


def calls_super(t):
    return t().twice()


def named(t):
    return t.__name__, t.__qualname__, len(t.__mro__)


def stores(t):
    obj = t()
    obj.late = 5
    return vars(obj)


def multiplied(t):
    try:
        return t() * 2
    except TypeError:
        return None


def entered(t):
    return t()(3) if callable(t()) else "plain"


class Property:
    def __set__(self, obj, value):
        vars(obj)["other"] = value


CHANGES = {
    "late": (absent, lambda t, m, b, meta: setattr(t, "late", 7)),
    "late in the metaclass": (absent, lambda t, m, b, meta: setattr(meta, "late", 8)),
    "late in an instance": (absent_in_instance, lambda t, m, b, meta: setattr(m, "late", 7)),
    "metaclass patched": (calls_meta, lambda t, m, b, meta: setattr(meta, "meta", lambda cls: 3)),
    "metaclass hidden": (calls_meta, lambda t, m, b, meta: setattr(t, "meta", staticmethod(lambda: 4))),
    "base patched": (calls_super, lambda t, m, b, meta: setattr(b, "twice", lambda self: 5)),
    "base hidden": (calls_super, lambda t, m, b, meta: setattr(m, "twice", lambda self: 6)),
    "renamed": (named, lambda t, m, b, meta: setattr(t, "__name__", "Renamed")),
    "qualified": (named, lambda t, m, b, meta: setattr(t, "__qualname__", "a.b")),
    "based": (named, lambda t, m, b, meta: setattr(t, "__bases__", (b,))),
    "store intercepted": (stores, lambda t, m, b, meta: setattr(t, "late", Property())),
    "operator given": (multiplied, lambda t, m, b, meta: setattr(t, "__mul__", lambda self, n: n)),
    "made callable": (entered, lambda t, m, b, meta: setattr(t, "__call__", lambda self, n: n)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_class_that_changes(name):
    fn, change = CHANGES[name]
    classes = fresh()
    compiled = dynacomp.jit(lambda t, x: (fn(t), x + 1))
    for _ in range(2):
        got, plain = compiled(classes[0], X)[0], fn(classes[0])
        assert got == plain
        change(*classes)


def test_one_guard_for_all_that_a_class_was_asked():
    thing = fresh()[0]
    compiled = dynacomp.jit(lambda x: x + calls_meta(thing) + calls_super(thing))
    before = dynacomp.stats()["frames_captured"]
    for _ in range(3):
        compiled(X)
    assert dynacomp.stats()["frames_captured"] == before + 1


@pytest.mark.parametrize("make", [lambda: itertools.product([1], other=2), lambda: itertools.permutations([1], -1)])
def test_what_itertools_refuses(make):
    def refused(x):
        try:
            return list(make()), x
        except (TypeError, ValueError) as error:
            return str(error), x

    assert dynacomp.jit(refused)(X)[0] == refused(X)[0]


def test_a_module_that_was_imported_afresh_dies_with_its_last_user():
    def f():
        module = types.ModuleType("fresh")
        module.inc = lambda x: x + 1
        return use(module), weakref.ref(module)

    @dynacomp.jit
    def use(module):
        return module.inc(jnp.ones(2)).sum()

    total, module = f()
    gc.collect()
    assert total == 4 and module() is None


def test_what_a_librarys_metaclass_finds_may_be_the_argument():
    class Mode(eqxi.Enumeration):
        fast = "fast"
        slow = "slow"

    def program(mode, x):
        return (mode == Mode.fast) + x, mode is Mode.slow

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        mode = Mode.slow if i % 3 else Mode.fast  # first the very object that the class gives
        assert repr(compiled(mode, X * i)) == repr(program(mode, X * i))
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] == 2
