"""Functions that only store their arguments are seen as that on every version of Python; all others are not."""

import dataclasses

import pytest

from dynacomp.capture.bytecode.assignments import Assignment, assignments
from dynacomp.capture.bytecode.code import decode


@dataclasses.dataclass
class Plain:
    x: int
    y: str = "y"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    y: str = "y"


@dataclasses.dataclass
class WithFactory:
    x: int
    items: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class WithMore:
    x: int

    def __post_init__(self):
        self.y = self.x


def by_hand(self, a, *, b=1, **rest):
    self.a = a
    self._b = b
    self.rest = rest


def outer(store):
    def stores(self, a):
        store.__setattr__(self, "a", a)
    return stores


def found(fn):
    return assignments(decode(fn.__code__))


def test_stores_in_order():
    assert found(by_hand) == (Assignment("a", "a"), Assignment("_b", "b"), Assignment("rest", "rest"))
    assert found(Plain.__init__) == (Assignment("x", "x"), Assignment("y", "y"))


def test_stores_by_what_lies_in_a_cell():
    assert found(outer(object)) == (Assignment("a", "a", "store"),)
    assert [(a.attribute, a.argument) for a in found(Frozen.__init__)] == [("x", "x"), ("y", "y")]
    assert len({a.setter for a in found(Frozen.__init__)}) == 1 and found(Frozen.__init__)[0].setter is not None


def returns(self, a):
    self.a = a
    return a


def computes(self, a):
    self.a = a + 1


def constant(self, a):
    self.a = 1


def of_another(self, a):
    a.a = self


def twice(self, a):
    self.a = self.b = a


def deep(self, a):
    self.a.b = a


def global_(self, a):
    object.__setattr__(self, "a", a)


def branches(self, a):
    if a:
        self.a = a


def nothing(self, a):
    pass


def no_arguments():
    return None


def closes_over(self, a):
    self.a = a
    return lambda: a


@pytest.mark.parametrize("fn", [returns, computes, constant, of_another, twice, deep, global_, branches, nothing,
                                no_arguments, closes_over, WithFactory.__init__, WithMore.__init__])
def test_what_does_more_or_less(fn):
    assert found(fn) is None
