"""C++ functions of the program: their text, what they can be given, and how they are called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen.compiler import CompilerError
from dynacomp.codegen.native_ops import NativeOp, foreign_call, why_not
from tests.codegen.cpp_kit import CACHE

SCALE = NativeOp("scale", """
#include <cmath>
template <class T>
void scale(Array<const T> x, Array<T> out, double by, bool up) {
  for (int64_t i = 0; i < x.size(); i++) out[i] = T(x[i] * by) + (up ? T(1) : T(0));
}""")
THREADED = NativeOp("scale", SCALE.source.replace("(Array<const T>", "(const dynacomp_runtime* rt, Array<const T>")
                    .replace("T(1)", "T(rt->threads)"))
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def called(op, x, **params):
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = foreign_call(op, [x], [struct], params, (), CACHE, lambda *a: None)
    return call(x)[0]


def test_each_source_has_a_namespace_of_its_own_and_stands_once():
    assert SCALE.space != THREADED.space and SCALE.space == NativeOp("scale", SCALE.source).space
    text = SCALE.text
    assert text.index("#include <cmath>") < text.index(f"namespace {SCALE.space}"), "headers stand outside"
    assert text.startswith(f"#ifndef {SCALE.space}_seen") and text.count("#include") == 1
    body = text[text.index("namespace"):].split("\n")
    assert body.index("template <class T>") - 1 == SCALE.source.split("\n").index("template <class T>") + 1, \
        "lines keep their distances, for messages of the compiler"


@pytest.mark.parametrize(("shapes", "dtypes", "params", "said"), [
    ([(2, 3)], ["float32"], {"by": 2.0, "up": True, "n": 3}, None),
    ([(2, 3)], ["complex64"], {}, "cannot take complex64"),
    ([(1,) * 9], ["float32"], {}, "more than 8 dimensions"),
    ([(2, 3)], ["float32"], {"by": "2"}, "by='2'"), ([(2, 3)], ["float32"], {"by": np.float32(2)}, "by=")])
def test_what_it_cannot_be_given(shapes, dtypes, params, said):
    found = why_not(shapes, list(map(np.dtype, dtypes)), params)
    assert (found is None) if said is None else said in found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("by", [-0.3, 1e300, float("-inf"), float("nan")])
def test_parameters_arrive_bit_for_bit(dtype, by):
    if dtype == "int32" and not abs(by) < 99:
        return
    with jax.enable_x64(True), np.errstate(over="ignore"):
        x = jnp.asarray(X.astype(dtype))
        got, want = called(SCALE, x, by=by, up=False), (np.asarray(x).astype(np.float64) * by).astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)


def test_one_that_takes_the_runtime_gets_it_first():
    np.testing.assert_array_equal(called(THREADED, jnp.asarray(X), by=2.0, up=True), X * 2 + 1)


def test_a_name_that_is_not_there_is_said_by_the_compiler():
    with pytest.raises(CompilerError, match="missing"):
        called(NativeOp("missing", SCALE.source), jnp.asarray(X), by=2.0, up=True)
    with pytest.raises(TypeError, match="scale: .*complex64"):
        called(SCALE, jnp.asarray(X * 1j), by=2.0)
