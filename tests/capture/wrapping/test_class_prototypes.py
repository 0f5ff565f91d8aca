"""Specimens: seen by nobody, and never shipped."""

import functools
import gc
import types

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import frame
from dynacomp.capture._native import hide_subclass
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.guards import Guard
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.wrapping import class_prototypes
from tests.capture.flow_kit import same


class Parent:
    pass


def made():
    """A capture that has made a class, and the class."""
    cls = type("Made", (Parent,), {})
    recipe = class_prototypes.ClassRecipe(cls, Const(cls), 3, "Made", (), {})
    return types.SimpleNamespace(known=types.SimpleNamespace(made={id(cls): recipe})), cls, recipe


def closing_over(obj):
    return lambda: obj


@pytest.mark.parametrize("hide", [
    lambda cls: cls, lambda cls: [1, (cls,)], lambda cls: {cls: 1}, lambda cls: {"a": {cls}}, lambda cls: cls(),
    lambda cls: functools.partial(print, k=cls), closing_over, runtime.Weak, runtime.Kept,
    lambda cls: Guard("is", S.Attr(S.Root(cls, "Made"), "x"), (1,)),
    lambda cls: Guard("is", S.Local(0, "x"), (cls,)),
    lambda cls: closing_over.__code__.replace(co_consts=(None, frozenset([cls]))),
    lambda cls: types.MethodType(print, cls)])
def test_a_leak_is_found(hide):
    cap, cls, recipe = made()
    assert class_prototypes.leak(cap, [hide(cls)]) is recipe
    assert class_prototypes.leak(cap, [hide(Parent)]) is None


def test_what_leaks_is_made_by_python(monkeypatch):
    """Whatever emission overlooks, the graph breaks where the class is made."""
    found = []

    def leak(cap, roots):
        recipes = [r for r in cap.known.made.values() if isinstance(r, class_prototypes.ClassRecipe)]
        found.extend(recipes)
        return recipes[0] if recipes else None

    def f(x):
        y = x + 1

        class Local(Parent):
            w = y

        return Local.w * 2, Local.__name__

    monkeypatch.setattr(frame, "leak", leak)
    compiled = dynacomp.jit(f, backend="eager")
    for _ in range(2):
        assert same(compiled(jnp.ones(3)), f(jnp.ones(3)))
    assert len(set(map(id, found))) == 1 and sum(dynacomp.stats()["breaks"].values()) >= 1


def test_a_hidden_class_is_no_subclass_and_dies_in_peace():
    before = Parent.__subclasses__()
    for bases in ((Parent,), (Parent, dict), (Exception,)):
        cls = type("Hidden", bases, {})
        hide_subclass(cls)
        hide_subclass(cls)
        assert cls not in Parent.__subclasses__() and cls.__bases__ == bases
        del cls
    gc.collect()
    assert Parent.__subclasses__() == before
    for wrong in (3, int):
        with pytest.raises(TypeError):
            hide_subclass(wrong)
