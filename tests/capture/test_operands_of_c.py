"""Operators of what is no instance on an instance: members of enums, classes, Decimals; and what Decimals leave."""

import decimal
import enum
import fractions

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture import frame

X = jnp.arange(2.0)


class Own:
    def __init__(self, v):
        self.v = v


class Member(enum.Enum):
    A = 1
    B = 2
    __hash__ = object.__hash__

    def __lt__(self, other):
        return self.value < other.v

    def __add__(self, other):
        return self.value + other.v

    def __eq__(self, other):
        return isinstance(other, Own) and other.v == self.value or self is other


class Meta(type):
    def __le__(cls, other):
        return [cls.__name__, other.v]

    def __or__(cls, other):
        return NotImplemented


class Made(metaclass=Meta):
    pass


def tried(compute):
    try:
        return compute()
    except TypeError as error:
        return str(error)


def members(x):
    one = Own(1)
    return x + 1, tried(lambda: Member.A < Own(3)), tried(lambda: Member.B + one), Member.A == one, Member.B != one


def classes(x):
    return x + 1, tried(lambda: Made <= Own(4)), tried(lambda: Made | Own(1)), tried(lambda: Made < Own(1))


def decimals_and_fractions(x):
    one, half = decimal.Decimal(1), fractions.Fraction(1, 2)
    return x + 1, tried(lambda: one < half), tried(lambda: half < one), one == half * 2, tried(lambda: one < Own(1))


def compared_with_a_float(x):
    return x + 1, decimal.Decimal("0.5") == 0.5, decimal.Decimal(1) < 1.5


def made_from_a_float(x):
    return x + 1, decimal.Decimal(0.5)


def exact(x):
    return x + 1, decimal.Decimal(1) < 2, decimal.Decimal("1.5") == decimal.Decimal("1.50")


def huge(x):
    return x + 1, len(divmod(1 << 40_000, 3))


def flags():
    context = decimal.getcontext()
    found = [kind.__name__ for kind, is_set in context.flags.items() if is_set]
    context.clear_flags()
    return found


@pytest.mark.parametrize("fn", [members, classes, decimals_and_fractions, compared_with_a_float, made_from_a_float,
                                exact, huge], ids=lambda f: f.__name__)
def test_it_is_what_python_says(fn, monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    flags()
    want, compiled = (repr(fn(X)), flags()), dynacomp.jit(fn)
    for _ in range(2):
        assert (repr(compiled(X)), flags()) == want


def test_comparing_exact_numbers_breaks_nothing():
    compiled = dynacomp.jit(exact, fullgraph=True)
    assert repr(compiled(X)) == repr(exact(X))
