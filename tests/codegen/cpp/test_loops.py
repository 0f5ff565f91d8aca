"""Vector loops in C++: folds down columns take several registers in step only where a row has as many."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import notices
from dynacomp.codegen.cpp.loops import kernel_body
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.kernel_ir.printer import parse
from dynacomp.lowering.primitives.translate import lower_function
from tests.codegen.cpp_kit import compiled


def source(fn, *args):
    return unit_source(schedule(lower_function(fn, *args)), False)


def total(x):
    return (x * x).sum(0)


def text(columns):
    return source(total, np.zeros((5, columns), np.float32))


def test_what_a_row_is_too_short_for_is_not_compiled():
    short, some, long = map(text, (8, 32, 4096))
    assert "_u3" not in short and "_u3" in some and "_u3" in long
    assert "#if 32 >= 4 * (DC_VECTOR_BYTES / 4)" in some and "#if 4096" not in long


@pytest.mark.parametrize("columns", [8, 31, 32, 65])
def test_every_width_is_right(columns):
    x = jnp.arange(5.0 * columns).reshape(5, columns)
    np.testing.assert_allclose(dynacomp.jit(total)(x), total(x), rtol=1e-5, atol=1e-5)


STRIDED = {
    "even": (lambda x: x[:, ::2] + 1, "strided<2>"), "third": (lambda x: x[:, 1::3] * 2, "strided<3>"),
    "fourth": (lambda x: x[:, 3::4] * 2, "strided<4>"), "turned": (lambda x: x[:, ::-1] * 2, "strided<-1>"),
    "complex": (lambda x: (x + 2j * x[::-1]) * (x - 1j), "zip("), "parts": (lambda x: (x + 2j).conj().imag, "store("),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("columns", [1, 5, 33, 200])
@pytest.mark.parametrize("name", STRIDED)
def test_lanes_a_step_apart_move_as_whole_registers(name, columns, dtype):
    fn, move = STRIDED[name]
    x = jnp.arange(3 * columns).reshape(3, columns).astype(dtype)
    assert move in source(fn, jnp.zeros((64, 200), dtype))
    got, want = dynacomp.jit(fn)(x), fn(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(got).astype(np.complex64), np.asarray(want).astype(np.complex64))


def test_short_rows_are_not_cut_for_threads():
    """Distances to few points: a tail whose length nobody knew was loaded lane by lane."""
    distances = lambda x, c: ((x[:, None] - c) ** 2).sum(-1)
    x, c = np.random.RandomState(0).randn(300, 4).astype(np.float32), np.ones((6, 4), np.float32)
    assert "upto<6>{}" in source(distances, x, c) and "block_of" not in source(distances, x, c)
    np.testing.assert_allclose(dynacomp.jit(distances)(x, c), distances(x, c), rtol=1e-5)


def test_threads_get_copies_of_sizes_and_the_place_of_what_they_share():
    """As references into the kernel's frame, sizes were read again after each store; a small buffer of the kernel's
    own, copied for each piece of the work, would be another one in each."""
    made = parse("""\
kernel k(x: f32[n, 8]) -> (o: f32[n, 8]) local (r: f32[8]) sizes (n,):
    parallel i0 < 8:
        r[i0] = exp(x[i0])
    parallel i1 < n:
        vector i2 < 8:
            o[8*i1 + i2] = add(x[8*i1 + i2], r[i2])
""".rstrip())
    lines = list(kernel_body(made, False))
    assert "float* const r_ = r_own;" in lines and sum("parallel(rt" in line for line in lines) == 2
    assert all("[=]" in line for line in lines if "parallel(rt" in line)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_threads_share_is_one_buffer(threads):
    fn = lambda x: jnp.exp(x[0]) + x
    x = jnp.asarray(np.random.RandomState(0).randn(60_000, 8), jnp.float32)
    compiled = dynacomp.jit(fn, options={"threads": threads})
    for rows in (60_000, 50_000, 40_000):
        np.testing.assert_allclose(compiled(x[:rows]), fn(x[:rows]), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_folds_of_what_is_the_same_in_all_lanes_compile_without_warnings(tmp_path):
    def sums(t):
        return jnp.broadcast_to(t[:, None] * 0.5, (8, 64)).sum(1)

    dynacomp.reset()
    compiled = dynacomp.jit(sums, options={"cxx": "g++ -Werror", "cache_dir": tmp_path, "recall": False})
    np.testing.assert_allclose(compiled(jnp.arange(8.0)), 32 * np.arange(8.0), rtol=1e-6)
    assert not any(n.id == "fallback" or "g++" in n.reason for n in notices.told())


@pytest.mark.parametrize(("states", "lanes"), [(3, False), (5, False), (12, True)])
def test_a_small_step_of_many_operations_runs_in_lanes(states, lanes):
    """The best way to each state: a hidden Markov model's decoder, whose kernel lies inside a loop."""
    def best(seen, way):
        def step(score, row):
            through = score[:, None] + way
            return through.max(0) + row, through.argmax(0)

        return jax.lax.scan(step, seen[0], seen[1:])

    rng = np.random.default_rng(states)
    seen, way = (jnp.asarray(rng.standard_normal(n), jnp.float32) for n in ((20, states), (states, states)))
    kernel = source(best, seen, way).split("wins_argmax")[0]
    assert ("vector_loop" in kernel.split("kernel1_")[-1]) is lanes
    for got, want in zip(jax.tree.leaves(dynacomp.jit(best)(seen, way)), jax.tree.leaves(best(seen, way))):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float16", "bool"])
@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 9, 16, 17, 31])
def test_short_loops_use_the_narrowest_register(dtype, length):
    """Twenty steps, each of which reads what the one before it wrote."""
    def steps(x):
        return jax.lax.fori_loop(0, 20, lambda i, y: jnp.where(y > 0, jnp.sin(y) + y / 2, y - 1).astype(x.dtype), x)

    x = jnp.linspace(-2, 3, length).astype(dtype)
    program = compiled(steps, x)
    got, want = program(x)[0], steps(x)
    assert got.dtype == want.dtype
    tolerance, least = (3e-2, 1e-3) if x.itemsize < 4 else (1e-5, 0)  # XLA rounds subnormals as the CPU at hand does
    np.testing.assert_allclose(*(np.asarray(y, np.float32) for y in (got, want)), rtol=tolerance, atol=least)
    few = dtype == "float32" and 4 < length <= 8
    assert not few or "lanes_for<4, " in "".join(program.source.values())
