"""Pointwise ops as scalar expressions: rounding, choices, halves that round after each op, random words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.kernel_ir.scalars import SCALARS
from dynacomp.lowering.primitives.ops import OPS
from dynacomp.lowering.rules.pointwise import POINTWISE, digamma_at_zero
from tests.lowering.closed import same_as_eager, scheduled

X = np.float32([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 1e9, np.nan, np.inf])


def kernel(function, *args):
    (step,) = scheduled(function, *args).steps
    return text(step.kernel)


def test_every_row_is_an_op_and_ends_in_functions_that_kernels_know():
    assert set(POINTWISE) <= set(OPS)
    same = [name for name, rule in POINTWISE.items() if rule is POINTWISE["add"]]
    assert set(same) <= set(SCALARS) and len(same) > 40


@pytest.mark.parametrize("method", ["TO_NEAREST_EVEN", "AWAY_FROM_ZERO"])
def test_rounding(method):
    same_as_eager(lambda x: lax.round(x, lax.RoundingMethod[method]), X)


def test_choices_are_numbered_and_out_of_range_the_nearest():
    cases = [X * k for k in range(1, 4)]
    for which in (-5, 0, 1, 2, 9):
        same_as_eager(lambda i, *c: lax.select_n(lax.clamp(0, jnp.full(X.shape, i), 2), *c), np.int32(which), *cases)
    same_as_eager(lambda x, y: lax.select_n(x > 0, x, y), X, -X)
    assert kernel(lambda x: jnp.where(x > 0, x, 0), X).count("select(") == 1


@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (5, 10), (8, 23)])
def test_reduced_precision_is_a_type(exponent, mantissa):
    function = lambda x: lax.reduce_precision(x / 3, exponent, mantissa)
    same_as_eager(function, X)
    assert kernel(function, X).count("convert(") == (0 if mantissa == 23 else 2)


def test_halves_round_after_each_operation():
    for dtype in (jnp.float16, jnp.bfloat16):
        same_as_eager(lambda x: (x * 3 + 1) / 7 - x, jnp.asarray(X[:7], dtype))


def test_powers_of_mixed_dtypes_and_bits():
    same_as_eager(lambda x: lax.pow(x, jnp.int32(3)), X[:7])
    same_as_eager(lambda x: lax.bitcast_convert_type(x, np.int32) ^ 5, X)


def test_a_pole_is_what_this_jax_says():
    np.testing.assert_array_equal(digamma_at_zero(), lax.digamma(np.float32(0)))
    same_as_eager(lax.digamma, np.float32([0.0, -0.0, 0.3, 4, -1.5]))


@pytest.mark.parametrize("shape", [(1,), (2, 3), (7,)])
def test_random_words_are_jaxs(shape):
    for seed in (0, 2**31):
        same_as_eager(lambda k: jax.random.bits(jax.random.wrap_key_data(k), shape), np.uint32([seed, 5]))
