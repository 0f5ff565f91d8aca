"""Reductions as folds: what they start from, in which dtype they run, over which positions."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.rules.reduce import FOLDS, accumulator, identity, merge_axes
from tests.lowering.closed import same_as_eager, scheduled

X = np.random.RandomState(0).randn(3, 4, 5).astype(np.float32)
REDUCTIONS = {
    "reduce_sum": jnp.sum, "reduce_prod": jnp.prod, "reduce_max": jnp.max, "reduce_min": jnp.min,
    "reduce_and": jnp.all, "reduce_or": jnp.any, "argmax": jnp.argmax, "argmin": jnp.argmin}
COMBINED = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "xor": np.bitwise_xor,
            "all": np.bitwise_and, "any": np.bitwise_or}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_any_axis(name):
    assert name in FOLDS
    x = X > 0 if name in ("reduce_and", "reduce_or") else X
    for axis in (0, 1, -1):
        same_as_eager(lambda x, axis=axis: REDUCTIONS[name](x, axis=axis), x)
    if not name.startswith("arg"):
        same_as_eager(lambda x: REDUCTIONS[name](x, axis=(0, 2)), x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint16", "int32", "bool"])
@pytest.mark.parametrize("fold", COMBINED)
def test_what_a_fold_starts_from_changes_nothing(fold, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "f" and fold in ("xor", "all", "any") or dtype.kind == "b" and fold in ("sum", "prod"):
        return
    some = np.array([0, 1], dtype) if dtype.kind in "bu" else np.array([-3, 0, 5], dtype)
    start = np.asarray(identity(fold, dtype)).astype(dtype)
    np.testing.assert_array_equal(COMBINED[fold](some, start), some)


def test_halves_add_up_in_single_precision_and_round_once():
    assert accumulator("sum", np.dtype(np.float16)) == np.float32
    assert accumulator("max", np.dtype(np.float16)) == np.float16
    x = jnp.asarray(np.full((2, 5000), 0.1), jnp.bfloat16)
    (step,) = scheduled(lambda x: x.sum(1), x).steps
    assert "sum f32" in text(step.kernel) and "-> (p1: bf16[2])" in text(step.kernel)
    same_as_eager(lambda x: x.sum(1), x)


def test_integers_are_tested_bit_by_bit():
    bits = np.random.RandomState(1).randint(0, 255, (4, 9)).astype(np.uint8)
    for function in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor):
        start = np.uint8(255 if function is lax.bitwise_and else 0)
        same_as_eager(lambda x, f=function, s=start: lax.reduce(x, s, f, (1,)), bits)


def test_positions_go_back_between_the_others():
    assert merge_axes(("a", "b"), ("x", "y"), [1, 3]) == ("a", "x", "b", "y")
    assert merge_axes((), ("x",), [0]) == ("x",)


@pytest.mark.parametrize("spec", ["ij,jk->ik", "bij,bkj->bik", "ij,ij->", "bi,bi->b", "ij,kl->ijkl"])
def test_small_products_are_folds(spec):
    left, right = spec.split("->")[0].split(",")
    a, b = (np.random.RandomState(k).randn(*(2 + "bijkl".index(c) for c in s)).astype(np.float32)
            for k, s in enumerate((left, right)))
    same_as_eager(lambda a, b: jnp.einsum(spec, a, b), a, b, scale=2)
