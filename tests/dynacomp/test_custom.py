"""dynacomp.custom_op: eager, transformed and compiled, in C++ and in Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import passes
from dynacomp.codegen.compiler import CompilerError
from dynacomp.driver import recall

X = jnp.linspace(-2.0, 2.0, 6).reshape(2, 3)

affine = dynacomp.custom_op(
    "affine", abstract=lambda x, *, by, up=0: x, batching="broadcast",
    derivative=lambda primals, tangents, *, by, up=0: affine(tangents[0], by=by),
    cpp="""
    #include <cmath>
    template <class T>
    void affine(const dynacomp_runtime* rt, Array<const T> x, Array<T> out, double by, int64_t up = 0) {
      dynacomp::parallel(rt, x.size(), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) out[i] = T(x[i] * by) + T(up);
      });
    }""")
parts = dynacomp.custom_op(
    "parts", abstract=lambda x: (jax.ShapeDtypeStruct((x.shape[0],), x.dtype), jax.ShapeDtypeStruct(x.shape, bool)),
    cpp="""
    void parts(Array<const float> x, Array<float> sums, Array<bool> positive) {
      for (int64_t r = 0; r < x.rows(); r++) {
        sums[r] = 0;
        for (int64_t c = 0; c < x.columns(); c++) {
          const float value = x[r * x.shape[1] + c];
          sums[r] += value;
          positive[r * x.shape[1] + c] = value > 0;
        }
      }
    }""")


@dynacomp.custom_op("power", abstract=lambda x, *, n: x, derivative=(
    lambda x, *, n: (power(x, n=n), x), lambda x, moved, *, n: (moved * n * power(x, n=n - 1),)))
def power(x, *, n):
    """x to the n."""
    assert isinstance(x, np.ndarray)
    return x ** n


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def compiled(fn, *args, externs=0):
    """Runs `fn` compiled, twice, as one region; the results are those of eager JAX."""
    made = dynacomp.jit(fn, fullgraph=True)
    want = fn(*args)
    for _ in range(2):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), made(*args), want)
    stats = dynacomp.stats()
    assert stats["regions"] == {"cpp": 1} and sum(stats["externs"].values()) == externs, stats
    return made


# --- in C++


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_eager_it_is_a_function_of_jax(dtype):
    x = X.astype(dtype)
    want = np.asarray(x * 2 + 1).astype(dtype)
    for fn in (lambda x: affine(x, by=2.0, up=1), jax.jit(lambda x: affine(x, by=2.0, up=1)),
               jax.vmap(lambda x: affine(x, by=2.0, up=1)), lambda x: jnp.stack([affine(r, by=2.0, up=1) for r in x])):
        np.testing.assert_allclose(fn(x), want)
        assert fn(x).dtype == dtype


@pytest.mark.parametrize("dtype", [pytest.param(jnp.float16, marks=pytest.mark.slow), jnp.bfloat16])
def test_narrow_floats_are_numbers(dtype):
    """They compute as float, are rounded where they are kept, and have limits of their own."""
    squashed = dynacomp.custom_op("squashed", abstract=lambda x: (x, x), cpp="""
        #include <algorithm>
        #include <cmath>
        #include <limits>
        template <class T>
        void squashed(Array<const T> x, Array<T> out, Array<T> limits) {
          T sum = 0;
          for (int64_t i = 0; i < x.size(); i++) {
            out[i] = x[i] > 1 ? std::max(x[i], T(1.5)) : T(x[i] / (T(1) + std::exp(-x[i])));
            sum += x[i];
          }
          using L = std::numeric_limits<T>;
          const T all[] = {sum, L::max(), L::lowest(), L::min(), L::epsilon(), L::infinity(), L::quiet_NaN()};
          std::copy(all, all + 7, limits.data);
        }""")
    x, of = jnp.linspace(-2, 2, 9).astype(dtype), jnp.finfo(dtype)
    out, limits = dynacomp.jit(lambda x: jax.tree.map(jnp.negative, squashed(x * 2)), fullgraph=True)(x)
    wide, total = np.float32(x * 2), np.zeros((), dtype)
    for value in np.asarray(x * 2):
        total = (np.float32(total) + np.float32(value)).astype(dtype)
    want = np.where(wide > 1, np.maximum(wide, 1.5), wide / (1 + np.exp(-wide))).astype(dtype)
    np.testing.assert_array_equal(-out, want)
    known = np.array([total, of.max, of.min, of.tiny, of.eps, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(np.float32(-limits[:7]), np.float32(known))
    assert dynacomp.stats()["regions"] == {"cpp": 1} and not dynacomp.stats()["externs"]
    np.testing.assert_array_equal(squashed(x * 2)[0], want)


def test_eager_derivatives():
    fn = lambda x: affine(x * x, by=3.0)
    np.testing.assert_allclose(jax.jvp(fn, (X,), (jnp.ones_like(X),))[1], 6 * X, rtol=1e-6)
    np.testing.assert_allclose(jax.jacfwd(fn)(X[0]), jnp.diag(6 * X[0]), rtol=1e-6)


def test_compiled_it_is_part_of_the_native_call():
    fn = lambda x: affine(jnp.sin(x) + 1, by=2.0, up=1) * 3 + affine(jnp.float32(3), by=1.0)
    made = compiled(fn, X)
    (region,) = dynacomp.explain(fn)(X).regions
    assert region.kernels.count("affine") == 2 and "affine" in str(region.lowered)
    passes.verify(region.lowered)
    np.testing.assert_allclose(passes.interpret(region.lowered, X)[0], fn(X), rtol=1e-6)
    for n in (3, 4, 5, 0):
        x = jnp.ones((2, n))
        np.testing.assert_allclose(made(x), fn(x), rtol=1e-6)
    assert dynacomp.stats()["externs"] == {}


def test_several_results_and_a_transposed_operand():
    compiled(lambda x: parts(x.T), X)
    compiled_text = str(dynacomp.explain(lambda x: parts(x + 1)[0] * 2)(X))
    assert "parts" in compiled_text
    sums, positive = jax.vmap(parts)(jnp.stack([X, -X]))
    np.testing.assert_allclose(sums, [X.sum(1), -X.sum(1)], rtol=1e-6)
    assert positive.dtype == bool and positive.shape == (2, 2, 3)


def test_compiled_transformations():
    compiled(lambda x: jax.vmap(lambda r: affine(r, by=2.0))(x), X)
    dynacomp.reset()
    compiled(lambda x: jax.jvp(lambda x: affine(x * x, by=2.0), (x,), (x,)), X)


def test_it_can_be_the_replacement_of_a_pattern():
    rewriter = passes.rewriter(lambda x: jnp.tanh(x) * 2, lambda x: affine(jnp.tanh(x), by=2.0))
    fn = dynacomp.jit(lambda x: jnp.tanh(x) * 2 + 1, options={
        "passes": passes.default().insert(rewriter, name="mine", before="dead_code")})
    np.testing.assert_allclose(fn(X), jnp.tanh(X) * 2 + 1, rtol=1e-6)
    assert dynacomp.stats()["kernels"]["cpp"] == 3


def test_it_runs_inside_a_native_loop():
    compiled(lambda x: jax.lax.fori_loop(0, 40, lambda i, x: affine(x, by=0.5) + affine(jnp.float32(1), by=2.0), x), X)


def test_what_another_process_keeps_is_known_by_the_source():
    said = list(recall.contents(passes.lower(lambda x: affine(x, by=2.0), X)))
    assert any(isinstance(text, str) and "T(x[i] * by)" in text for text in said)


def test_source_that_does_not_compile_says_why():
    source = "void bad(Array<const float> x, Array<float> out) { oops; }"
    bad = dynacomp.custom_op("bad", abstract=lambda x: x, cpp=source)
    with pytest.raises(CompilerError, match="oops"):
        bad(X)


def test_what_it_cannot_take_is_refused():
    with pytest.raises(TypeError, match="complex64"):
        affine(X + 1j, by=1.0)
    with pytest.raises(TypeError, match="by='two'"):
        affine(X, by="two")


# --- in Python


def test_a_python_function_is_a_seam():
    assert power.__doc__ == "x to the n." and power.__name__ == "power"
    np.testing.assert_allclose(power(X, n=3), X ** 3, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(lambda x: power(x, n=2))(X), X ** 2, rtol=1e-6)
    compiled(lambda x: power(x + 1, n=2) * 2, X, externs=1)


def test_a_pair_of_functions_is_its_derivative():
    fn = lambda x: jax.grad(lambda x: power(x, n=3).sum())(x)
    np.testing.assert_allclose(fn(X), 3 * X ** 2, rtol=1e-5)
    np.testing.assert_allclose(dynacomp.jit(fn, fullgraph=True)(X), 3 * X ** 2, rtol=1e-5)


def test_a_rule_of_batching():
    seen = []

    def rule(size, is_batched, x, *, n):
        seen.append((size, is_batched))
        return x ** n, True

    op = dynacomp.custom_op("ruled", lambda x, *, n: x ** n, abstract=lambda x, *, n: x, batching=rule)
    np.testing.assert_allclose(jax.vmap(lambda x: op(x, n=2), in_axes=1)(X), X.T ** 2, rtol=1e-6)
    assert seen == [(3, [True])]


def test_a_second_operation_of_a_name_is_another():
    one, two = (dynacomp.custom_op("again", lambda x, k=k: x + k, abstract=lambda x: x) for k in (1, 2))
    np.testing.assert_allclose(two(X) - one(X), np.ones_like(X), rtol=1e-6)
    np.testing.assert_allclose(dynacomp.jit(lambda x: two(x) - one(x))(X), np.ones_like(X), rtol=1e-6)


@pytest.mark.parametrize("how, error, text", [
    (dict(abstract=3), TypeError, "abstract="), (dict(derivative=3), TypeError, "derivative="),
    (dict(derivative=(len,)), TypeError, "pair"), (dict(batching="all"), ValueError, "sequential, broadcast"),
    (dict(cpp=""), TypeError, "not both"), (dict(name="no name"), ValueError, "identifier"),
])
def test_what_makes_no_operation_is_refused(how, error, text):
    given = {"name": "op", "call": lambda x: x, "abstract": lambda x: x, **how}
    with pytest.raises(error, match=text):
        dynacomp.custom_op(**given)


def test_results_that_are_no_arrays_are_refused():
    op = dynacomp.custom_op("odd", lambda x: x, abstract=lambda x: 3)
    with pytest.raises(TypeError, match="shapes and dtypes are wanted"):
        op(X)
