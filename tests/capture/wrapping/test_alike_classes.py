"""`wrapping.alike_classes`: instances of classes that each call makes anew, passed in or alive at a break."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.wrapping.alike_classes import may_be_anew, said


def scaled(k, shift):
    def moved(x):
        return x + shift

    class Scaled:
        made = 0

        def __init__(self, w):
            self.w = w

        def __call__(self, x, c=k):
            return moved(self.w * x) * k + c

        @property
        def twice(self):
            return self.w * 2 * k

        @classmethod
        def like(cls, w):
            return cls(w * k)

        def counted(self):
            Scaled.made += 1
            return Scaled.made

    return Scaled


def named(k):
    class Named(NamedTuple):
        a: jax.Array
        b: float

        def product(self):
            return self.a * self.b * k

    return Named


def data(k):
    @dataclasses.dataclass(frozen=True)
    class Data:
        a: jax.Array
        b: float = 2.0

        def product(self):
            return self.a * self.b * k

    return Data


def derived(k):
    class Base:
        def of(self, x):
            return x * self.k

    class Derived(Base):
        def of(self, x):
            return super().of(x) + k

    return Derived


def settled(fn, make, captures):
    """Ten calls, as plain Python answers them; no more captures than these."""
    before = dynacomp.stats()["frames_captured"]
    compiled = dynacomp.jit(fn)
    for i in range(10):
        for one, other in zip(jax.tree.leaves(fn(*make(i))), jax.tree.leaves(compiled(*make(i))), strict=True):
            assert np.array_equal(one, other)
    assert dynacomp.stats()["frames_captured"] - before <= captures
    return compiled


def instance(i):
    x = jnp.arange(4.0) + i
    return scaled(float(i), x)(x), x


def test_instances_that_are_passed():
    settled(lambda p, x: p(x) + p.twice + p.like(x).w, instance, 3)
    settled(lambda p, x: (x * p.counted(), p.counted(), type(p).made), instance, 3)
    settled(lambda p, x: jax.grad(lambda x: p(x).sum())(x), instance, 3)


@pytest.mark.parametrize("make", [named, data])
def test_records(make):
    def program(p):
        return jax.tree.map(jnp.negative, p.product()), type(p)(p.a, 3.0).product()

    settled(program, lambda i: (make(i)(jnp.arange(4.0) + i, 2.0),), 3)
    settled(program, lambda i: (make(2)(jnp.arange(4.0) + i, 2.0),), 2)


def by_default(k):
    @dataclasses.dataclass
    class Data:
        a: jax.Array
        b: float = 0.5 * k

        def product(self):
            return self.a * self.b

    return Data


def test_a_dataclass_tells_its_defaults():
    """In its `__doc__`, which differs then."""
    settled(lambda p: p.product(), lambda i: (by_default(i)(jnp.ones(4)),), 3)
    settled(lambda p: (p.product(), len(type(p).__doc__)), lambda i: (by_default(i)(jnp.ones(4)),), 3)
    told = dynacomp.jit(lambda p: (p.a + 1, type(p).__doc__))
    for i in range(6):
        assert told(by_default(i)(jnp.ones(4)))[1].count(f"= {0.5 * i}") == 1

    def made_in_the_call(x, k):
        @dataclasses.dataclass
        class Data:
            b: float = 0.5 * k

        return x * Data().b

    settled(made_in_the_call, lambda i: (jnp.ones(4), i), 5)


def test_made_classes():
    def make(i):
        return dataclasses.make_dataclass("Made", ["w", "b"])(jnp.ones(4) * i, 2.0), jnp.arange(4.0)

    settled(lambda p, x: p.w * x + p.b, make, 2)


def test_bases_and_classes_that_are_passed():
    def make(i):
        p = derived(jnp.float32(i))()
        p.k = jnp.ones(4) * i
        return p, jnp.arange(4.0)

    settled(lambda p, x: p.of(x), make, 2)
    settled(lambda cls, x: cls(x)(x), lambda i: (scaled(2.0, 1.0), jnp.arange(4.0) + i), 2)


def test_objects_that_are_new_are_of_the_class_of_the_call(strict):
    compiled = dynacomp.jit(lambda p, x: (x + 1, type(p)(x), type(p), p.__call__, p.like))
    for i in range(4):
        p, x = instance(i)
        _, made, cls, call, like = compiled(p, x)
        assert type(made) is cls is type(p)
        assert call.__self__ is p and call.__func__ is cls.__call__ and like.__self__ is cls


def test_alive_at_a_break(capsys):
    def program(x):
        p = scaled(2.0, x)(x)
        call = p.__call__
        print("break")
        return call(x), p.like(x).w

    settled(program, lambda i: (jnp.arange(4.0) + i,), 4)
    assert capsys.readouterr().out == "break\n" * 20


KEPT = scaled(2.0, 1.0)


def test_a_class_that_the_code_knows_is_told_apart():
    def program(p, x):
        return x + 1, isinstance(p, KEPT), type(p) is KEPT

    def make(i):
        return (KEPT if i in (5, 7) else scaled(2.0, 1.0))(1.0), jnp.arange(4.0)

    settled(program, make, 3)


def test_two_objects_of_one_class_or_of_two():
    def program(p, q, x):
        return p(x) + q(x), type(p) is type(q)

    def make(i):
        p, x = instance(2)
        return p, (p.like(x) if i in (4, 6) else instance(2)[0]), x

    settled(program, make, 3)


def test_what_a_class_says():
    assert said(scaled(1.0, 2)) == said(scaled(2.0, 3)) != said(derived(1.0))
    assert said(named(1)) == said(named(2)) and said(data(1)) == said(data(2))
    assert not may_be_anew(NamedTuple) and not may_be_anew(jax.Array)
    changed = scaled(1.0, 2)
    changed.like = lambda self, w: w
    assert said(changed) != said(scaled(1.0, 2))


def test_a_class_that_changes():
    def make(i):
        p, x = instance(2)
        if i > 5:
            type(p).__call__ = lambda self, x: x - i
        return p, x

    settled(lambda p, x: p(x), make, 5)


def test_what_is_computed_of_constants_is_of_the_class_of_the_call():
    def program(p, x):
        return x + 1, p._replace(a=2), type(p)(1, 2), [type(p)._make((3, 4))]

    compiled = dynacomp.jit(program, backend="eager")
    for i in range(5):
        p = named(2)(i, 3)
        _, other, made, [third] = compiled(p, jnp.arange(3.0))
        assert type(other) is type(made) is type(third) is type(p)
        assert (other, made, third) == ((2, 3), (1, 2), (3, 4))


def test_what_no_call_can_make_anew_is_known_by_identity():
    def program(cls, x):
        return x + 1, list[cls]

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(5):
        cls = scaled(2.0, 1)
        assert compiled(cls, jnp.arange(3.0))[1].__args__ == (cls,)
