"""`dynacomp.driver.classes_anew`: few captures for classes that calls make anew; those that take turns are kept."""

import functools
import gc
from typing import Any, Generic, Protocol, TypeVar

import jax.numpy as jnp

import dynacomp
from dynacomp.driver import classes_anew as module
from tests.capture.program_kit import outcome

X = jnp.arange(4.0)
T = TypeVar("T")


class Meta(type):
    """What classes of it say is not all that there is to them."""


def captures_of(program, args, calls=10, **how):
    """How many captures each call takes; all are like plain Python's."""
    dynacomp.reset()
    made, counts = dynacomp.jit(program, backend="eager", **how), []
    for i in range(calls):
        want, before = outcome(program, args(i)), dynacomp.stats()["frames_captured"]
        assert repr(outcome(made, args(i))) == repr(want)
        counts.append(dynacomp.stats()["frames_captured"] - before)
    return counts


def test_a_class_of_a_metaclass_made_in_the_call():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tag = 2
            return made

    def program(x, k):
        class Layer(metaclass=Meta):
            def __init__(self, scale):
                self.scale = scale

            def __call__(self, x):
                return x * self.scale + self.tag

        return Layer(k)(x)

    counts = captures_of(program, lambda i: (X + i, i))
    assert sum(counts) <= 2, counts
    assert "churn" not in dynacomp.stats()["frames_eager"] and not dynacomp.stats()["breaks"]


def test_a_class_of_a_metaclass_that_makes_it_in_its_own_way():
    class Meta(type):
        def __new__(mcs, name, bases, body):
            return super().__new__(mcs, name, bases, {**body, "tag": 2})

    def program(x, k):
        class Layer(metaclass=Meta):
            def __call__(self, x):
                return x * k + self.tag

        return Layer()(x)

    counts = captures_of(program, lambda i: (X + i, i))
    assert sum(counts[7:]) == 0, counts
    assert dynacomp.stats()["frames_eager"]["churn"]


def test_generics_and_protocols_made_in_the_call():
    def program(x, k):
        class Box(Generic[T]):
            def __init__(self, v: T):
                self.v = v

            def map(self, f: Any) -> "Box[T]":
                return Box(f(self.v))

        class Has(Protocol):
            def get(self) -> Any: ...

        class Held:
            def get(self):
                return x * k

        return Box[int](x).map(lambda v: v * k).v + Held().get(), issubclass(Has, Protocol)

    assert sum(captures_of(program, lambda i: (X + i, i))[7:]) == 0


def test_an_object_of_the_caller_whose_class_is_made_for_each_call():
    def layer(k):
        class Layer(metaclass=Meta):
            def __call__(self, x):
                return x * k

        return Layer()

    def program(model, x):
        return model(x) + 1

    assert sum(captures_of(program, lambda i: (layer(2.0), X + i))[4:]) == 0
    assert captures_of(program, lambda i: (layer(2.0), X + i), 6, fullgraph=True) == [1] * 6


def test_entries_that_die_with_their_classes_are_not_made_again():
    def layer(k):
        class Layer(metaclass=Meta):
            def __call__(self, x):
                return x * k

        return Layer()

    def args(i):
        if i > 4:
            gc.collect()
        return layer(2.0), X + i

    assert sum(captures_of(lambda model, x: model(x) + 1, args, 12)[3:]) == 1  # that of `__call__`, once


def test_a_few_classes_of_one_name_that_take_turns_have_an_entry_each():
    """A factory makes them once."""
    @functools.cache
    def layer(k):
        class Layer:
            def __call__(self, x):
                return x * k

        return Layer()

    for turns in (lambda i: i % 3, lambda i: i // 4):
        layer.cache_clear()
        captures_of(lambda model, x: model(x) + 1, lambda i, turns=turns: (layer(turns(i) + 1.0), X + i), 16)
        assert not dynacomp.stats()["frames_eager"]


def test_classes_that_come_back_are_captured_though_each_was_new_at_first():
    """Many models, each of a class of its own, that take turns; Python runs some of them in the first round: their
    `__call__` is captured twice."""
    def layer(k):
        class Layer(metaclass=Meta):
            def __call__(self, x):
                return x * k

        return Layer()

    models, eager = [layer(float(k)) for k in range(7)], {}

    def args(i):
        eager[i] = dynacomp.stats()["frames_eager"].get("churn", 0)
        return models[i % 7], X + i

    counts = captures_of(lambda model, x: model(x) + 1, args, 28)
    assert eager[7] and eager[14] == eager[27] == dynacomp.stats()["frames_eager"]["churn"]
    assert sum(counts[:14]) == 7 + 2 and not any(counts[14:])


def test_a_served_entry_begins_the_count_again():
    module.forget()
    assert [module._count("m.f.<locals>.C", call, 0) for call in (1, 1, 2, 5)] == [1, 1, 2, 3]
    assert [module._count("m.f.<locals>.C", call, module.SERVED) for call in (9, 10)] == [1, 2]
    module.forget()
