"""`abs`, `pow`, `divmod`, `round` and the functions of `operator` and `math`, on arrays, numbers and objects."""

import decimal
import fractions
import math
import operator

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X, Y = jnp.asarray([1.0, -2.5, 4.0]), jnp.asarray([2, -3, 5, 7])


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __repr__(self):
        return f"Money({self.cents})"

    def __divmod__(self, other):
        return Money(self.cents // other), Money(self.cents % other)

    def __rdivmod__(self, other):
        return "reflected", other

    def __pow__(self, other, mod=None):
        return Money((self.cents, other, mod))

    def __round__(self, n=None):
        return Money((round(self.cents, n), n))

    def __abs__(self):
        return Money(abs(self.cents))


def numbers(x):
    return (abs(-3), abs(x), pow(2, 10), pow(3, -1, 7), pow(x, 2), divmod(-7, 2), divmod(7.5, 2), round(2.5),
            round(x, 1),
            round(-1234.567, -2), round(True), x * round(0.5))


def objects(x):
    m = Money(-250)
    return abs(m), divmod(m, 7), divmod(7, m), pow(m, 2), pow(m, 2, 5), m ** 2, round(m), round(m, 1), x + abs(m).cents


def functions(x):
    table, items = {"a": 1}, [3, 1, 2]
    operator.setitem(items, 1, 9)
    operator.delitem(items, 0)
    operator.setitem(table, "b", x)
    return (items, sorted(table), operator.getitem(table, "a"), operator.contains(table, "b"),
            operator.contains([1], 2),
            operator.is_(table, table), operator.is_not(items, None), operator.not_([]), operator.truth(items),
            operator.neg(x), operator.matmul(x, x), operator.iadd(items, [1]), operator.lt(1, 2), operator.invert(5))


def folds(x):
    return math.prod([2, 3, 4]), math.prod(n for n in (1, 2)), math.prod([2], start=5), math.fsum([0.1] * 10), x + 1


@pytest.mark.parametrize("program", [numbers, objects, functions, folds])
def test_one_graph(program):
    check_one_graph(program, (X,), (X * 3,))


@pytest.mark.parametrize("fn", [lambda x: (divmod(x, 2), divmod(7, x), x), lambda x: (x % 3, -x // 2, abs(x))])
def test_arrays_are_divided_as_jax_does(fn):
    check_one_graph(fn, (Y,), (-Y,))


@pytest.mark.parametrize("fn", [lambda x: (x, round("a")), lambda x: (x, divmod(1, 0)), lambda x: (x, abs([])),
                                lambda x: (x, pow(2, 1, 0)), lambda x: (x, operator.getitem([x], 3)),
                                lambda x: (x, operator.delitem({}, "k"))])
def test_what_raises_raises_the_same(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    assert outcome(fn, (X,)) == outcome(compiled, (X,)) == outcome(compiled, (X,))
    assert outcome(fn, (X,))[0] in (TypeError, ZeroDivisionError, ValueError, IndexError, KeyError)


def test_numbers_that_change_from_call_to_call():
    check_one_graph(lambda x, n: (abs(n), x * divmod(n, 3)[1], round(n), pow(n, 2)), (X, 4), (X, 5), (X, 9), (X, 11),
              captures=2)


def test_sizes_stay_sizes():
    def program(x):
        n = operator.index(x.shape[0])
        return jnp.zeros((math.prod(x.shape), +n)), math.prod((n, 2), start=3), math.prod(())

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 4, 7, 9, 2):
        found, expected = compiled(jnp.ones((n, 2))), program(jnp.ones((n, 2)))
        assert found[0].shape == expected[0].shape and found[1:] == expected[1:]
    assert dynacomp.stats()["frames_captured"] == 2 and dynacomp.stats()["breaks"] == {}


@pytest.mark.parametrize("right", [fractions.Fraction(1, 3), decimal.Decimal("1.5"), 2, 1.5, "a", np.float32(2),
                                   np.ones(2)], ids=repr)
@pytest.mark.parametrize("left", [fractions.Fraction(5, 3), decimal.Decimal("4.5"), np.int32(3), [1]], ids=repr)
def test_what_divmod_gives_where_one_operand_leaves_it_to_the_other(left, right):
    """It gave NotImplemented."""
    def fn(x, a, b):
        return x, divmod(a, b)

    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        assert repr(outcome(compiled, (X, left, right))) == repr(outcome(fn, (X, left, right)))


def test_comparing_a_number_of_numpys_with_a_list_goes_by_elements():
    def fn(x, n, items):
        try:
            found = items in [n]
        except ValueError as error:
            found = str(error)
        return x, n == items, items != n, found

    compiled = dynacomp.jit(fn, backend="eager")
    for n in (np.float32(1), np.int64(2)):
        for items in ([1, 2], (1, 2, 3)):
            assert repr(compiled(X, n, items)) == repr(fn(X, n, items))
