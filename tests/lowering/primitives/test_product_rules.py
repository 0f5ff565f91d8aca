"""Products of dtypes that no kernel multiplies, as XLA computes them."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import same_as_eager
from tests.lowering.passes.pass_kit import names

DTYPES = ("bool", "int8", "uint32", "int32", "float16", "bfloat16", "float32")


def values(shape, dtype, seed):
    drawn = np.random.RandomState(seed).randn(*shape).astype(np.float32) * 3
    return jnp.asarray(np.abs(drawn) if dtype == "uint32" else drawn).astype(dtype)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES, DTYPES)))
def test_products_of_two_dtypes(left, right):
    dims = (((1,), (0,)), ((), ()))
    same_as_eager(lambda x, y: lax.dot_general(x, y, dims), values((3, 7), left, 0), values((7, 2), right, 1))


@pytest.mark.parametrize(("operands", "result"), [
    ("int8", "float32"), ("int8", "float16"), ("int32", "float32"), ("float32", "int32"), ("float16", "int8"),
    ("bfloat16", "int16"), ("bool", "int32"), ("bool", "float32"), ("uint8", "bfloat16"), ("float32", "uint8"),
])
def test_results_of_another_kind(operands, result):
    product = lambda x, y: jnp.matmul(x, y, preferred_element_type=result)
    same_as_eager(product, values((3, 7), operands, 2), values((7, 2), operands, 3))
    same_as_eager(product, values((40, 30), operands, 4), values((30, 20), operands, 5), scale=4)


NONE = (((), ()), ((), ()))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("number", [jnp.float32(1.5), jnp.int32(3), jnp.float16(0.25)])
def test_a_product_with_a_number_scales(number, dtype):
    """The number was no node: a pass that looked for its shape failed, and XLA compiled the region."""
    for scaled in (lambda x: lax.dot_general(number, x, NONE).T, lambda x: lax.dot_general(x, number, NONE).T,
                   lambda x: lax.dot_general(number, number, NONE) + x.astype(number.dtype)):
        same_as_eager(scaled, values((3, 7), dtype, 0))
        assert "dot_general" not in names(lower_function(scaled, values((3, 7), dtype, 0)))


ONE_TERM = {
    "outer": (jnp.outer, (3,), (4,)), "of a column": (jnp.matmul, (7, 1), (1, 5)),
    "rows by rows": (lambda x, y: jnp.einsum("bi,bj->bji", x, y), (6, 3), (6, 2)),
    "two dimensions": (lambda x, y: jnp.tensordot(x, y, 2), (3, 1, 1), (1, 1, 5)),
    "batches inside": (lambda x, y: lax.dot_general(x, y, (((0,), (2,)), ((1,), (0,)))), (1, 7, 4), (7, 3, 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("name", ONE_TERM)
def test_a_sum_of_one_term_is_no_sum(name, dtype):
    """An outer product was a call of a kernel for each matrix of the batch; now it fuses with what reads it."""
    run, *shapes = ONE_TERM[name]
    args = [values(shape, dtype, k) for k, shape in enumerate(shapes)]
    same_as_eager(run, *args)
    assert "dot_general" not in names(lower_function(run, *args))


def test_convolutions_of_another_kind():
    run = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", preferred_element_type=jnp.float32)
    same_as_eager(run, values((1, 2, 5, 6), "int8", 0), values((3, 2, 3, 3), "int8", 1))


@pytest.mark.parametrize("algorithm", ["BF16_BF16_F32", "F16_F16_F16", "F32_F32_F32", "DEFAULT"])
def test_algorithms_are_obeyed(algorithm):
    """Values that an operand of 16 bits does not hold: the algorithm's rounding shows."""
    run = lambda x, y: jnp.matmul(x, y, precision=lax.DotAlgorithmPreset[algorithm])
    same_as_eager(run, values((3, 40), "float32", 0), values((40, 30), "float32", 1), scale=4)


LAYOUTS = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("HWNC", "HWOI", "HWNC"), ("CHWN", "IHWO", "CNHW"),
           ("NHWC", "HWIO", "HNCW")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("window", "product"), [((1, 1), True), ((5, 6), True), ((1, 6), True), ((5, 1), True),
                                                 ((2, 1), False), ((5, 3), False)])
def test_convolutions_that_do_not_slide_are_products(layout, window, product):
    sizes = {"N": 4, "C": 3, "H": 5, "W": 6}, {"O": 7, "I": 3, "H": window[0], "W": window[1]}
    x, w = (values([of[c] for c in order], "float32", k) for k, (of, order) in enumerate(zip(sizes, layout)))
    run = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layout)
    same_as_eager(run, x, w, scale=4)
    graph = lower_function(run, x, w)
    assert ("conv_general_dilated" in names(graph)) != product


@pytest.mark.parametrize("change", [
    {"window_strides": (2, 1)}, {"padding": ((0, 1), (0, 0))}, {"lhs_dilation": (1, 2)}, {"feature_group_count": 3},
    {"batch_group_count": 2}])
def test_convolutions_of_one_element_that_are_no_products(change):
    params = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0))} | change
    x = values((4, 3, 5, 6), "float32", 0)
    w = values((6, 3 // params.get("feature_group_count", 1), 1, 1), "float32", 1)
    run = lambda x, w: lax.conv_general_dilated(x, w, **params)
    same_as_eager(run, x, w, scale=4)
    graph = lower_function(run, x, w)
    assert "conv_general_dilated" in names(graph)
