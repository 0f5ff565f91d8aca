"""`cls.__dict__`: read name by name, or whole."""

import types

import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(3.0)


class Base:
    scale = 2.0

    def forward(self, x):
        return x * self.scale


class Derived(Base):
    offset = 1


class Meta(type):
    def __len__(cls):
        return 7


class Made(metaclass=Meta):
    one = 1


def own(x):
    return [b.__name__ for b in Derived.__mro__ if "forward" in b.__dict__], x


def read(x):
    return Base.__dict__["scale"] * x, vars(Derived).get("scale", 3), type(Derived()).__dict__["offset"]


def missing(x):
    try:
        return Derived.__dict__["scale"]
    except KeyError as error:
        return str(error), x


def gone_through(x):
    return x, [k for k in vars(Base) if k[0] != "_"], {k: v for k, v in Derived.__dict__.items() if k == "offset"}


def called(x):
    return Base.__dict__["forward"](Derived(), x), len(Made.__dict__) == len(dict(vars(Made)))


def shown(x):
    return type(Base.__dict__), x, isinstance(vars(Made), types.MappingProxyType), list(Made.__dict__)[:2]


def built_in(x):
    return "append" in list.__dict__, "appendix" in list.__dict__, x


def refused(x):
    Base.__dict__["scale"] = x


@pytest.mark.parametrize("fn", [own, read, missing, gone_through, called, shown, built_in], ids=lambda f: f.__name__)
def test_it_is_read_without_a_break(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, fullgraph=True)
    assert repr(compiled(X)) == repr(fn(X)) == repr(compiled(X))
    assert dynacomp.stats()["cache_hits"] and not dynacomp.stats()["breaks"]


def test_it_takes_no_items():
    with pytest.raises(TypeError, match="does not support item assignment"):
        dynacomp.jit(refused)(X)


def test_names_that_come_and_go_are_seen():
    class Own(Base):
        pass

    def f(x):
        return x + ("forward" in Own.__dict__), list(vars(Own))

    compiled = dynacomp.jit(f)
    for change in (lambda: None, lambda: setattr(Own, "forward", 1), lambda: delattr(Own, "forward")):
        change()
        assert repr(compiled(X)) == repr(f(X))


def test_only_the_names_that_are_asked_for_are_guarded():
    class Own(Base):
        pass

    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: x + ("forward" in Own.__dict__))
    for k in range(4):
        setattr(Own, f"cache{k}", k)
        compiled(X)
    assert dynacomp.stats()["frames_captured"] == 1


def test_what_the_code_has_changed_is_there():
    def f(x):
        Base.shift = x + 1
        try:
            return "shift" in Base.__dict__, Base.__dict__["shift"]
        finally:
            del Base.shift

    compiled = dynacomp.jit(f)
    assert repr(compiled(X)) == repr(f(X)) == repr(compiled(X))
    assert "shift" not in vars(Base)
