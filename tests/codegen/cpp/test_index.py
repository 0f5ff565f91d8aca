"""Index expressions and constants as C++ text."""

import ml_dtypes
import numpy as np
import pytest
import sympy

from dynacomp.codegen.cpp.index import cpp_name, index_code, step_along
from dynacomp.codegen.cpp.types import identity, literal, storage
from dynacomp.lowering.sizes.indexing import FloorDiv, FloorMod
from dynacomp.lowering.sizes.symbols import size, symbol

i, j, n = symbol("i"), symbol("j"), size("n")


@pytest.mark.parametrize("expr,code", [
    (n * i + j, "i_*n_ + j_"), (i - 1, "i_ + (-1)"), (n**2 * i, "i_*n_*n_"),
    (sympy.Integer(2) ** 40, "INT64_C(1099511627776)"),
    (FloorDiv(i, n) + FloorMod(i, n), "floor_div(i_, n_) + floor_mod(i_, n_)"),
    (sympy.Max(i, j, 0), "most(most(0, i_), j_)"),
    (3 * (i + j), "3*i_ + 3*j_"),
])
def test_code_evaluates_to_the_expression(expr, code):
    env = {"i_": 7, "j_": 5, "n_": 3, "floor_div": lambda a, b: a // b, "floor_mod": lambda a, b: a % b,
           "most": max, "INT64_C": int}
    values = {i: 7, j: 5, n: 3}
    want = int(expr.xreplace(values).doit()) if not expr.has(FloorDiv) else 7 // 3 + 7 % 3
    assert eval(index_code(expr), env) == eval(code, env) == want


@pytest.mark.parametrize("expr,step", [(n * i + j, 1), (n * j, n), (i, 0), (FloorDiv(j, n), None), (j * j, None)])
def test_step_along(expr, step):
    assert step_along(expr, "j") == step


def test_unknown_functions_are_refused():
    with pytest.raises(ValueError, match="no C\\+\\+ for the index expression"):
        index_code(sympy.sin(i))


def test_names_cannot_clash():
    assert cpp_name("exp") == "exp_" and cpp_name("a.b") == "a_b_"


@pytest.mark.parametrize("value,dtype,text", [
    (1.0, "float32", "1.0f"), (0.1, "float64", "0.1"), (float("-inf"), "float32", "-__builtin_inff()"),
    (True, "bool", "true"),
    (-(2**63), "int64", "(-INT64_C(9223372036854775807) - 1)"), (200, "uint8", "(uint8_t)200"),
])
def test_literals(value, dtype, text):
    assert literal(value, np.dtype(dtype)) == text


def test_identities_and_storage():
    assert identity("max", np.dtype("int32")) == "(int32_t)(-2147483648)"
    assert identity("all", np.dtype(bool)) == "true"
    assert storage(np.dtype(ml_dtypes.bfloat16)) == "bf16"
    with pytest.raises(TypeError, match="no type for dtype complex64"):
        storage(np.dtype("complex64"))
