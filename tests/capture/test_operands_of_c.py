"""Operators of what is no instance on an instance: members of enums, classes, Decimals, dates."""

import datetime
import decimal
import enum
import fractions

import jax.numpy as jnp
import pytest

import dynacomp

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


class Varies(datetime.tzinfo):
    """A zone in Python, which C code asks: each answer is another one."""

    def __init__(self):
        self.offset = datetime.timedelta(minutes=22)

    def utcoffset(self, when):
        self.offset += datetime.timedelta(minutes=1)
        return self.offset

    def dst(self, when):
        return None

    def tzname(self, when):
        return "varies"


class Ratio(float):
    def as_integer_ratio(self):
        return 3, 1


def zones(x):
    first, second = (datetime.datetime(2000, 1, 1, 8, tzinfo=zone) for zone in (Varies(), Varies()))
    return x + 1, first == second, first - second, str(first), first.tzinfo.offset, first.utcoffset()


def zones_of_c(x):
    zone = datetime.timezone(datetime.timedelta(hours=1))
    at = datetime.datetime(2000, 1, 1, tzinfo=zone)
    return x + 1, at.utcoffset(), at - datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC), at.isoformat()


def number_of_its_own(x):
    return x + 1, datetime.timedelta(1) * Ratio(1.5)


def tuple_of_c(x):
    week = datetime.date(2003, 12, 22).isocalendar()
    return x + 1, week == (2003, 52, 1), (2003, 52, 1) == week, [week] == [(2003, 52, 1)]


class Zero(int):
    """The default of a parameter, as `re.sub` of Python 3.13 has it, which another int may be."""


ZERO = Zero()
TABLE = {("a", 1): 2.0, ("a", ZERO): 3.0}


def number_of_a_class(x):
    key = ("a", Zero(1))
    found = TABLE.get(key), TABLE["a", Zero(0)], TABLE.pop(("b", ZERO), 4)
    return x + 1, found, ZERO == Zero(0), Zero(1) == ZERO, {key: 3}["a", 1], Zero(2) != ZERO


def flags():
    context = decimal.getcontext()
    found = [kind.__name__ for kind, is_set in context.flags.items() if is_set]
    context.clear_flags()
    return found


@pytest.mark.parametrize("fn", [members, classes, decimals_and_fractions, compared_with_a_float,
                                made_from_a_float, exact, huge, zones, zones_of_c, number_of_its_own,
                                number_of_a_class, tuple_of_c], ids=lambda f: f.__name__)
def test_it_is_what_python_says(fn):
    flags()
    want, compiled = (repr(fn(X)), flags()), dynacomp.jit(fn)
    for _ in range(2):
        assert (repr(compiled(X)), flags()) == want


@pytest.mark.parametrize("fn", [exact, number_of_a_class, zones_of_c, tuple_of_c], ids=lambda f: f.__name__)
def test_what_never_changes_breaks_nothing(fn):
    compiled = dynacomp.jit(fn, fullgraph=True)
    assert repr(compiled(X)) == repr(fn(X))
