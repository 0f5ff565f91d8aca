"""`kernels.templates`: every row is whole, and takes what it says that it takes; references are NumPy's answers."""

import numpy as np
import pytest

from dynacomp.kernels.templates import HEADERS, TEMPLATES, instance, product_type, strided, sum_type

F32, F64, I8, I32, U8, BF16 = map(np.dtype, ("float32", "float64", "int8", "int32", "uint8", "bfloat16"))
PRODUCT = dict(batch=2, m=3, n=4, k=5, a_strides=(15, 5, 1), b_strides=(20, 4, 1))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_row_is_whole(name):
    row = TEMPLATES[name]
    assert row.name == name and row.doc and (HEADERS / row.header).exists()
    assert callable(row.reference) and (row.instances is None or not row.source)


def test_products_add_up_in_a_type_that_holds_them():
    assert product_type((I8, I8, I32)) == "float" and product_type((I8, I32, I32)) == "uint32_t"
    assert sum_type((I8, I8, I32)) == "uint32_t" and sum_type((F32, F32, F32)) == "float"
    assert sum_type((BF16, BF16, BF16)) == "float" and sum_type((F64, F64, F64)) == "double"


def test_a_product():
    row = TEMPLATES["matmul"]
    a, b = (np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((2, 3, 5), (2, 5, 4)))
    np.testing.assert_allclose(row.reference(PRODUCT, a, b)[0], a @ b, rtol=1e-5)
    assert row.applies(PRODUCT, (F32,) * 3) and not row.applies(PRODUCT, (F32, F32, np.dtype("complex64")))
    said = row.call(PRODUCT, (F32,) * 3, ["a", "b"], ["c"], str)
    assert said.endswith(";") and all(name in said for name in ("a", "b", "c"))


def test_parts_of_memory_by_strides():
    array = np.arange(12.0)
    np.testing.assert_array_equal(strided(array, (3, 2), (1, 6)), [[0, 6], [1, 7], [2, 8]])
    np.testing.assert_array_equal(strided(array, (2, 2), (0, 1)), [[0, 1], [0, 1]])


def test_an_order_of_floats_is_total():
    row = TEMPLATES["top_k"]
    x = np.array([[1.0, -np.inf, np.nan, -0.0, 0.0, np.inf]], np.float32)
    values, places = row.reference(dict(rows=1, n=6, k=5), x)
    np.testing.assert_array_equal(values, [[np.nan, np.inf, 1.0, 0.0, -0.0]])
    np.testing.assert_array_equal(places, [[2, 5, 0, 4, 3]])


def test_an_instance_is_a_unit_of_its_own():
    text = instance("matmul.h", "product", "float", "float")
    assert text == '#include "matmul.h"\ntemplate void dynacomp::product(float, float);\n'
    assert instance("sort.h", "sort") == '#include "sort.h"\n'
