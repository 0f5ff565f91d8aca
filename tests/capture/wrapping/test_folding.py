"""What is computed while capturing, and what must be left to each call."""

import decimal
import gc
import re
import warnings
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

import dynacomp

X = jnp.ones(2)
CONTEXT = decimal.Context(prec=5)


def test_decimal_arithmetic_reads_the_context_of_each_call():
    third = dynacomp.jit(lambda x: (str(Decimal(1) / 3), str(-Decimal("1.23456789")), Decimal("0.5") < 1, x + 1),
                         backend="eager")
    for digits in (3, 6, 9):
        with decimal.localcontext() as context:
            context.prec = digits
            assert third(X)[0] == "0." + digits * "3" and len(third(X)[1]) == digits + 2
            assert context.flags[decimal.Inexact]


def test_contexts_change():
    read = dynacomp.jit(lambda x: (CONTEXT.prec, decimal.getcontext().prec, x), backend="eager")
    for digits in (3, 6, 9):
        CONTEXT.prec = decimal.getcontext().prec = digits
        assert read(X)[:2] == (digits, digits)
    decimal.getcontext().prec = 28


WARNING = [lambda: np.log(np.float64(-1)), lambda: np.float32(3e38) * np.float32(10), lambda: np.float64(1) / 0]


@pytest.mark.parametrize("ask", WARNING)
def test_numpy_warns_at_each_call(ask):
    compiled = dynacomp.jit(lambda x: (ask(), x + 1), backend="eager")
    for _ in range(3):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            compiled(X)
        assert [w.category for w in told] == [RuntimeWarning]
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            compiled(X)


def test_what_depends_on_constants_alone_is_folded():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: x * np.sqrt(2.0) + len("abc".upper()), backend="eager")
    assert jnp.array_equal(compiled(X), X * np.sqrt(2.0) + 3) and not dynacomp.stats()["breaks"]


def test_a_pattern_with_flags_is_compiled_while_capturing(capsys):
    def pattern(x, flags):
        return re.compile(r"ab.*c(d)", flags).match("ABccD") is None, x + 1

    for flags, found in ((re.I, False), (re.I | re.S, False), (re.M, True)):
        dynacomp.reset()
        compiled = dynacomp.jit(pattern, backend="eager")
        for _ in range(2):
            re.purge()
            assert compiled(X, flags)[0] == found and not dynacomp.stats()["breaks"]
    shown = []
    for call in (pattern, compiled, compiled):
        re.purge()
        call(X, re.DEBUG)
        shown.append(capsys.readouterr().out)
    assert shown[0] and shown == shown[:1] * 3


def test_a_pattern_that_python_warns_of_is_compiled_in_python():
    def pattern(x):
        return re.compile(r"()(?P<a>a)(?P=a)[[]"), x + 1

    compiled = dynacomp.jit(pattern, backend="eager")
    for _ in range(2):
        re.purge()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            compiled(X)
        assert [(w.filename, w.lineno) for w in told] == [(__file__, pattern.__code__.co_firstlineno + 1)]


def test_what_may_change_is_made_anew():
    def f(x, n):
        context = decimal.Context()
        context.prec += n
        return x, context

    compiled = dynacomp.jit(f)
    made = [compiled(X, n)[1] for n in (1, 2, 1)]
    assert [c.prec for c in made] == [f(X, n)[1].prec for n in (1, 2, 1)] and made[0] is not made[2]


@pytest.mark.parametrize("dims, breaks", [("n", {}), ("n n+1-1", {"effect"})])
def test_a_class_that_constants_make_lives_as_long_as_what_speaks_of_it(dims, breaks):
    def checked(x):
        kind = Float[jax.Array, dims]  # nobody else keeps it; a symbolic axis is evaluated, behind a break
        return isinstance(x, kind), x + 1

    dynacomp.reset()
    compiled = dynacomp.jit(checked, backend="eager")
    for i in range(10):
        x = jnp.ones((2,) * len(dims.split())) * i
        assert repr(compiled(x)) == repr(checked(x))
        gc.collect()
    stats = dynacomp.stats()
    assert set(stats["breaks"]) == set(breaks) and stats["frames_captured"] <= 3 and not stats["frames_eager"]
