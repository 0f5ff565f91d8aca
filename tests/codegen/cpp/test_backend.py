"""The C++ backend on whole Schedules, against eager JAX; symbolic sizes, exact numerics, externs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph.avals import Aval
from dynacomp.codegen.cpp import backend
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.lowering.sizes.symbols import size
from tests.codegen.cpp_kit import CACHE, compiled, softmax_schedule
from tests.lowering.fuse.test_fusion import assert_same
from tests.lowering.programs import PROGRAMS
from tests.lowering.regions import REGIONS

CASES = {**{f"region-{k}": v[:2] for k, v in REGIONS.items()},
         **{f"program-{k}": v for k, v in PROGRAMS.items()}}
SKIP_VALUES = {"program-linalg": "signs of singular vectors are free"}


def words(x):
    """PRNG keys as the integers that Programs take and give."""
    return jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_against_eager(name):
    function, args = CASES[name]
    args = [jnp.asarray(a) for a in args]
    program = compiled(function, *args)
    got = program(*map(words, args))
    want = [words(jnp.asarray(w)) for w in jax.tree.leaves(function(*args))]
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape, g.weak_type) == (w.dtype, w.shape, w.weak_type)
        if w.dtype.kind != "c" and name not in SKIP_VALUES:
            assert_same(np.asarray(g), np.asarray(w))


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (64, 64), (5, 1000), (300, 33)])
def test_one_program_serves_every_size(shape):
    plan = softmax_schedule()
    program = backend.compile(plan, plan.output_avals, {"threads": 2, "cache_dir": CACHE})
    x = jax.random.normal(jax.random.key(0), shape)
    (y,) = program(x)
    assert y.shape == shape and not y.weak_type
    np.testing.assert_allclose(y, jax.nn.softmax(x), rtol=1e-5, atol=1e-7)


def test_weak_type_and_dtype_of_outputs():
    def fn(x):
        return x * 2, x > 0, jnp.full((), 2)

    three = jnp.float32(3.0)
    outs = compiled(fn, three)(three)
    assert [o.weak_type for o in outs] == [w.weak_type for w in fn(three)]


def test_exact_numerics_do_not_depend_on_threads():
    def fn(x):
        return (x * x).sum(), x.sum(0), x.sum(1), jnp.cumsum(x, 1)

    x = jax.random.normal(jax.random.key(1), (700, 301))
    runs = [compiled(fn, x, threads=t, numerics="exact")(x) for t in (1, 2, 3)]
    for other in runs[1:]:
        for a, b in zip(runs[0], other):
            np.testing.assert_array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


def test_default_numerics_repeat_bit_for_bit():
    x = jax.random.normal(jax.random.key(1), (1000, 1001))
    program = compiled(lambda x: (x.sum(), jnp.exp(x).mean(0)), x, threads=2)
    first = program(x)
    for _ in range(5):
        for a, b in zip(first, program(x)):
            np.testing.assert_array_equal(a, b)


def test_sums_are_as_accurate_as_eager_times_two():
    x = jax.random.uniform(jax.random.key(2), (1 << 20,)) + 1
    exact = np.asarray(x, np.float64).sum()
    (got,) = compiled(lambda x: x.sum(), x)(x)
    eager = abs(float(x.sum()) - exact)
    assert abs(float(got) - exact) <= max(2 * eager, np.spacing(np.float32(exact)))


def test_externs_are_counted_with_reasons():
    x = jnp.array([3.0, 1.0, 2.0])
    program = compiled(lambda x: jax.lax.linalg.hessenberg(jnp.diag(x + 1))[0] * 2, x)
    assert program.backend == "cpp" and program.externs and all(program.externs)
    np.testing.assert_allclose(program(x)[0], jax.lax.linalg.hessenberg(jnp.diag(x + 1))[0] * 2, rtol=1e-5)


def test_attributes():
    plan = schedule(lower_function(jax.nn.softmax, jnp.ones((4, 5))))
    program = backend.compile(plan, plan.output_avals, {"cache_dir": CACHE})
    assert program.backend == "cpp" and program.externs == () and len(program.kernels) == 1
    assert "dynacomp_run" in "".join(program.source.values()) and program.compile_seconds > 0


def test_wrong_number_of_output_avals():
    plan = softmax_schedule()
    with pytest.raises(ValueError, match="1 outputs but 2 output avals"):
        backend.compile(plan, (Aval((1,), np.dtype("float32")),) * 2, {})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(37, 53), (64, 64), (8, 129), (3, 40, 50)])
def test_transpositions_go_through_tiles(shape):
    def fn(x, w):
        y = jnp.swapaxes(x, -1, -2)
        return jnp.exp(y) + w, y > 0, y.astype(jnp.bfloat16)

    x = jax.random.normal(jax.random.key(0), shape)
    w = jax.random.normal(jax.random.key(1), (*shape[:-2], shape[-1], shape[-2]))
    program = compiled(fn, x, w)
    assert "fill_tile" in "".join(program.source.values())
    for got, want in zip(program(x, w), fn(x, w)):
        assert_same(np.asarray(got), np.asarray(want))


def test_squares_are_turned_in_registers_whatever_an_element_has_bytes():
    numbers = np.arange(37 * 43).reshape(37, 43)
    xs = [jnp.asarray(numbers.astype(d)) for d in (np.int8, np.int16, np.float16, np.int32, bool)]
    program = compiled(lambda *xs: [x.T for x in xs], *xs)
    assert "".join(program.source.values()).count("fill_tile") == 5
    for got, x in zip(program(*xs), xs):
        assert_same(np.asarray(got), np.asarray(x).T)


def test_column_folds_run_several_registers_in_step():
    x = jax.random.normal(jax.random.key(0), (33, 501))
    program = compiled(lambda x: (x.sum(0), x.max(0), (x > 0).any(0), (x * x).mean(0)), x)
    for got, want in zip(program(x), (x.sum(0), x.max(0), (x > 0).any(0), (x * x).mean(0))):
        assert_same(np.asarray(got), np.asarray(want))


def test_many_kernels_are_compiled_side_by_side(tmp_path):
    def fn(x):
        for k in range(8):
            x = jnp.sin(k + x) - x.sum(k % 2, keepdims=True)
        return x

    x = jnp.linspace(-1, 1, 60).reshape(6, 10)
    plan = schedule(lower_function(fn, x))
    assert backend.jobs_for(plan, backend.unit_source(plan, False), 2) == 2
    program = backend.compile(plan, plan.output_avals, {"threads": 2, "cache_dir": tmp_path})
    np.testing.assert_allclose(program(x)[0], fn(x), rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_templates_are_compiled_beside_the_kernels(tmp_path, threads):
    """Each kernel and each template once, for however many compilers there are."""
    def fn(x, w):
        for k in range(6):
            x = jnp.tanh(jnp.sort(x @ w) / (k + x.sum(k % 2, keepdims=True)))
        return x

    x, w = jnp.linspace(-1, 1, 60).reshape(6, 10), jnp.linspace(0, 1, 100).reshape(10, 10) ** 2
    plan = schedule(lower_function(fn, x, w))
    assert "sort" in backend.kernel_names(plan)
    assert backend.jobs_for(plan, backend.unit_source(plan, False), threads) == threads
    assert backend.parts(plan) == ('#include "sort.h"\n',)  # a unit of its own
    program = backend.compile(plan, plan.output_avals, {"threads": threads, "cache_dir": tmp_path})
    np.testing.assert_allclose(program(x, w)[0], fn(x, w), rtol=1e-4)


def test_a_template_alone_is_one_job():
    x = jnp.ones((64, 64))
    plan = schedule(lower_function(lambda x: jnp.sort(x), x))
    assert backend.jobs_for(plan, backend.unit_source(plan, False), 8) == 1


@pytest.mark.slow
def test_loops_of_known_extent_are_compiled_for_what_they_have():
    """Whole registers, several of them in step, a tail, or any two of these: by the extent."""
    def fn(xs, n):
        rows = [(jnp.sum(x, -1), jnp.max(x * 2, -1), jnp.where(x > 0, x + n, -0.0)) for x in xs]
        return rows, [jnp.sum(x.astype(jnp.int32), -1, keepdims=True) + jnp.arange(x.shape[-1]) for x in xs]

    xs = [jax.random.normal(jax.random.key(e), (3, e)) * 9 for e in (1, 7, 15, 16, 17, 33, 64, 65, 80, 100, 144)]
    program = compiled(fn, xs, jnp.float32(2))
    assert "upto<144>" in "".join(program.source.values())
    for got, want in zip(program(*xs, jnp.float32(2)), jax.tree.leaves(fn(xs, jnp.float32(2))), strict=True):
        assert_same(np.asarray(got), np.asarray(want))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_dimensions_of_one_element_that_xla_wants_elsewhere():
    def fn(x):
        return jnp.fft.fft((x * 2).T), jnp.linalg.eigvalsh((x + 1)[..., None] * jnp.ones((3, 3)))

    for rows in (1, 3):
        x = jnp.arange(3.0 * rows).reshape(rows, 3)
        for got, want in zip(compiled(fn, x)(x), fn(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


N, M = size("n"), size("m")


@pytest.mark.parametrize("shape, wanted, got", [
    ((2, 3), (2, N), (2, 3)), ((1, 3), (3, 1), (3, 1)), ((6,), (2, N), (2, 3)), ((1, 4, 5), (N, M, 1), (4, 5, 1)),
    ((4, 1, 5), (N, 1, M), (4, 1, 5)), ((3,), (N, 1), (3, 1)),
])
def test_operands_get_the_shape_that_xla_wants(shape, wanted, got):
    assert backend.shaped(np.zeros(shape), wanted, {}).shape == got


def test_merged_sizes_are_computed_where_xla_wants_them_apart():
    assert backend.shaped(np.zeros((12, 3)), (N, 2 * N, N - 1), {N: 3, M: 5}).shape == (3, 6, 2)


def test_a_derivative_at_a_seam_has_sizes_of_its_own():
    """Its operand is one buffer of merged sizes: (64, 64) for a pool's (n, n, 4, 4, 1)."""
    def pooled(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    dynacomp.reset()
    made = dynacomp.jit(jax.jacfwd(pooled))
    for n in (2, 4, 3, 5):
        x = jnp.sin(jnp.arange(n * 16.0)).reshape(n, 4, 4, 1)
        np.testing.assert_allclose(made(x), jax.jacfwd(pooled)(x))
    assert dynacomp.stats()["frames_captured"] == 2


@pytest.mark.parametrize("fn", [jnp.cumsum, jnp.cumprod, jax.lax.cummax, jax.lax.cummin, jax.lax.cumlogsumexp])
def test_cumulating_along_one_element(fn):
    def both(x):
        return fn(x[:1] * 2), fn((x * 2)[:, None], axis=1), fn((x * 2)[None], axis=0), -fn(-x[:1])

    x = jnp.array([0.0, 3.0, -1.0])
    for got, want in zip(compiled(both, x)(x), both(x), strict=True):
        assert_same(np.asarray(got), np.asarray(want))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_outputs_that_reshape_what_xla_makes():
    def fn(x):
        a, b = jax.lax.while_loop(lambda c: c[1][0, 0] < 3, lambda c: (jnp.fft.fft(c[0]), c[1] + 1), (x, x.real[:1]))
        return a.reshape(-1), b[0], jnp.fft.fft(x).reshape(3, 2)

    x = jnp.arange(6.0).reshape(2, 3) + 0j
    for got, want in zip(compiled(fn, x)(x), fn(x), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_outputs_that_reshape_what_xla_makes_of_unknown_sizes():
    def fn(x):
        return jnp.linalg.eigvalsh(x + 1).reshape(x.shape[1], x.shape[0], 3), jnp.fft.fft(x)[..., None]

    step = dynacomp.jit(fn, dynamic=True)
    for shape in ((2, 5, 3, 3), (4, 2, 3, 3)):
        x = jnp.arange(float(np.prod(shape))).reshape(shape) % 7
        for got, want in zip(step(x), fn(x), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
