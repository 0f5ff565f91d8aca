"""`reconstruct.emit_classes`: classes that the captured code has made are made again, with all done to them since."""

import dataclasses

import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph


def a_class_statement(x):
    class Point:
        scale = 2

        def __init__(self, at):
            self.at = at * self.scale

        @property
        def doubled(self):
            return self.at * 2

        def __repr__(self):
            return f"{type(self).__name__}({self.at}, {self.doubled})"

    Point.later = 7
    return Point(x), Point.later, Point.__name__


def a_derived_one(x):
    class Base:
        def told(self):
            return "base"

    class Derived(Base):
        def __repr__(self):
            return super().told() + str([c.__name__ for c in type(self).__mro__])

    return Derived(), isinstance(Derived(), Base), x


def a_dataclass(x):
    @dataclasses.dataclass
    class Pair:
        one: object
        two: int = 3

    return Pair(x), [f.name for f in dataclasses.fields(Pair)]


def test_new_classes_are_made_again():
    x = jnp.arange(3.0)
    for program in (a_class_statement, a_derived_one, a_dataclass):
        check_one_graph(program, (x,), (-x,))
