"""`capture.graph.size_orders`: a Size beside numbers of other kinds, arrays and objects, as its int."""

import math
import operator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import haiku as hk
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.size_orders import ROUNDED
from dynacomp.capture.graph.size_scope import Scope

OTHERS = (4.0, 5.0, 5.5, 6.0, -1e30, math.inf, -math.inf, math.nan, Fraction(11, 2), Fraction(5), Decimal("4.5"),
          Decimal(5), np.float32(5), np.float64(5.5), np.int8(5), ml_dtypes.bfloat16(5), np.float16("inf"), True)
ONLY_EQUAL = (5 + 0j, 5 + 1j, np.complex64(5), "5", None, np.str_("5"), (5,))


@pytest.mark.parametrize("name", [*ROUNDED, "eq", "ne"])
def test_a_size_is_on_the_ints_side(name):
    compare = getattr(operator, name)
    for other in OTHERS if name in ROUNDED else OTHERS + ONLY_EQUAL:
        for now in (4, 5, 6):
            scope = Scope()
            scope.deciding = True
            wanted, found = compare(now, other), compare(scope.symbol("n", now), other)
            assert bool(found) == bool(wanted), (now, name, other)
            assert compare(other, scope.symbol("n", now)) == compare(other, now), (other, name, now)
            if isinstance(other, np.floating):
                assert type(found) is type(wanted)


def test_what_no_int_can_be_compared_with():
    for other in ("5", None, 5j, (5,)):
        with pytest.raises(TypeError):
            Scope().symbol("n", 5) < other  # noqa: B015


def test_a_size_of_jaxs_own_is_another():
    (other,) = jax.export.symbolic_shape("n")
    size = Scope().symbol("n", 5)
    assert size != other and not size == other and other != size  # noqa: SIM201


@dataclass(order=True)
class Pair:
    n: int
    k: int = 0


class Own:
    def __eq__(self, other):
        return "own"


ASKED = {
    "floats": lambda n, x: 1 * (n == 5.0) + 2 * (n != 6.0) + 4 * (5.5 > n) + 8 * (n in [4.0, 7.0]),
    "numpy": lambda n, x: 1 * (n == np.float32(5)) + 2 * (np.float64(5) == n) + (4 if n == np.array(5) else 0),
    "fractions": lambda n, x: 1 * (n == Fraction(10, 2)) + 2 * (n == 5 + 0j) + 4 * (n < Decimal("5.5")),
    "arrays": lambda n, x: (n == jnp.arange(8)).sum() + 10 * (n != x[1, 1]) + 20 * (n < x[2, 1])
    + (n > np.arange(8)).sum(),
    "objects": lambda n, x: 1 * (Pair(n) == Pair(5)) + 2 * (Pair(n) < Pair(5, 1)) + 4 * (Pair(n, 1) in [Pair(6, 1)]),
    "own": lambda n, x: len(n == Own()) + len(Own() != n if False else Own() == n),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_in_a_function_that_jax_traces(asked):
    def fn(x):
        return hk.Linear(1, w_init=jnp.ones)(x).sum() + asked(x.shape[0], x)

    net = hk.without_apply_rng(hk.transform(fn))
    params, compiled = net.init(None, jnp.ones((3, 2))), dynacomp.jit(lambda p, x: net.apply(p, x))
    for n in (4, 5, 6, 7, 5, 3):
        x = jnp.arange(2. * n).reshape(n, 2)
        wanted, found = net.apply(params, x), compiled(params, x)
        assert (found.dtype, found.weak_type) == (wanted.dtype, wanted.weak_type)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not dynacomp.stats()["breaks"] and isinstance(found, jax.Array)
