"""Operations that raise for some numbers only: moved to Python under guards, and what they are in eager JAX."""

import math
import operator

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.ones(2)


def adam(x, t):
    return 0.1 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * x


def power(x, a, b):
    return a**b, x


def quotients(x, a, b):
    return a / b, a // b, a % b, x


def cosine(x, step, total=7):
    return x * 0.5 * (1 + math.cos(math.pi * step / total)), math.floor(step / 3), math.exp(-step / 5)


def logarithm(x, v):
    return math.log(v), math.sqrt(v), x


def outcome(program, *args):
    try:
        return repr(program(*args))
    except (ArithmeticError, ValueError) as error:
        return repr(error)


NUMBERS = [(2, 3), (3, 2), (2, 5), (0.5, 9), (0.25, 11), (2.0, -3), (-2.0, 3), (-2.0, 5), (0, 4), (0, 0), (7, 0),
           (0.0, -1), (-8.0, 0.5), (4.0, 0.5), (9.0, 0.5), (1e200, 3), (1e-200, -3), (2, -1), (True, 3), (3, True),
           (2.0, math.inf), (math.nan, 2), (-3, 3), (-3, 2), (2, 41), (2, 2000)]


@pytest.mark.parametrize("program", [power, quotients])
def test_what_may_raise_is_what_it_is_in_python(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for a, b in NUMBERS * 2:
        assert outcome(compiled, X, a, b) == outcome(program, X, a, b)


def test_functions_of_math_outside_their_bounds():
    compiled = dynacomp.jit(logarithm, backend="eager")
    for v in (1.0, 2.0, 3.5, 4, 0.0, 5.0, -1.0, 6.0, math.inf, math.nan, 1e-310, 7.0):
        assert outcome(compiled, X, v) == outcome(logarithm, X, v)


@pytest.mark.parametrize("program", [adam, cosine])
def test_schedules_break_nothing_and_are_captured_twice(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager", fullgraph=True)
    for step in range(1, 30):
        assert repr(compiled(X, step)) == repr(program(X, step))
    assert dynacomp.stats()["frames_captured"] == 2


def test_conditions_on_functions_of_math():
    def turning(x, step):
        return x + 1 if math.cos(step) > 0.5 else x - 1

    dynacomp.reset()
    compiled = dynacomp.jit(turning, backend="eager")
    for step in range(12):
        assert repr(compiled(X, step)) == repr(turning(X, step))
    assert not dynacomp.stats()["frames_eager"]


def of_numpy(x, a, n):
    scalar, small = np.sqrt(np.float32(a)), np.int8(len(x)) + n
    return x * (scalar / np.float32(a)), scalar / n, n // scalar, scalar**n, n**scalar, small, small % n, small**n


def test_scalars_of_numpy_break_nothing_and_are_captured_twice():
    """NumPy warns where Python raises, and the types of the operands say what the result's is."""
    dynacomp.reset()
    compiled = dynacomp.jit(of_numpy, backend="eager", fullgraph=True)
    for n in range(1, 10):
        assert repr(compiled(X, 0.5 + n, n)) == repr(of_numpy(X, 0.5 + n, n))
    assert dynacomp.stats()["frames_captured"] == 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", [operator.add, operator.truediv, operator.floordiv, operator.mod, operator.pow])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.bool_, np.float16, np.float32, np.float64])
def test_what_numpy_refuses_is_what_it_is_in_python(op, kind):
    """A Python int that does not fit the scalar's type, a negative power of an int, division by zero."""
    def program(x, a, n):
        scalar = kind(a)
        return x, op(scalar, n), op(n, scalar)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for a, n in [(1, 2), (2, 3), (3, 4), (2, 200), (3, 300), (4, -2), (0, 3), (3, 0), (2, 10**50), (2, 9**400), (5, 6)]:
        assert outcome(compiled, X, a, n) == outcome(program, X, a, n)
