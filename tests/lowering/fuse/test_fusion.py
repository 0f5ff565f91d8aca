"""Every region through the Schedule and its interpreter against eager JAX."""

import math
import time

import jax
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import ExternStep, KernelStep
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.kernel_ir.loops import Const, inner_loops
from dynacomp.lowering.kernel_ir.printer import parse, text
from dynacomp.lowering.kernel_ir.verifier import verify
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.regions import REGIONS, layer_norm

REFERENCES = {name: row.reference for name, row in TEMPLATES.items()}


def assert_same(got, want, rtol=2e-5):
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    rtol = 1e-2 if want.dtype.itemsize == 2 else rtol
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1.0, np.nanmax(np.abs(want), initial=0)))


def check_kernels(plan):
    """Every kernel is well formed and reads back from its own text."""
    for kernel in {id(s.kernel): s.kernel for s in plan.steps if isinstance(s, KernelStep)}.values():
        verify(kernel)
        assert parse(text(kernel)) == kernel, text(kernel)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REGIONS)
def test_region(name):
    fn, args, kernels = REGIONS[name]
    args = tuple(map(jax.numpy.asarray, args))
    plan = schedule(lower_function(fn, *args))
    check_kernels(plan)
    got = schedules.run(plan, args, REFERENCES)
    for g, w in zip(got, jax.tree.leaves(fn(*args)), strict=True):
        assert_same(g, w)
    if kernels is not None:
        assert len(plan.steps) == kernels and all(isinstance(s, KernelStep) for s in plan.steps)


GOLDEN = (
    "softmax",
    "softmax_axis0",
    "layer_norm",
    "adam",
    "cross_entropy_grad",
    "cumsum_fused",
    "big_columns",
    "scatter_rows",
    "concat",
    "rope",
)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_kernels(name, golden):
    fn, args, _ = REGIONS[name]
    plan = schedule(lower_function(fn, *map(jax.numpy.asarray, args)))
    kernels = [text(s.kernel) for s in plan.steps if isinstance(s, KernelStep)]
    golden(f"{name}.txt", "\n\n".join(kernels) + "\n")


def test_equal_layers_share_kernels():
    def model(x, gains, biases):
        for g, b in zip(gains, biases):
            x = jax.numpy.sort(layer_norm(x, g, b))
        return x

    args = (np.ones((8, 16), np.float32), [np.ones(16, np.float32)] * 3, [np.ones(16, np.float32)] * 3)
    kernels = [s.kernel for s in schedule(lower_function(model, *args)).steps if isinstance(s, KernelStep)]
    assert len(kernels) == 3 and len({id(k) for k in kernels}) == 1


def test_outputs_may_be_inputs_reshapes_and_repeated():
    def fn(x):
        y = jax.numpy.exp(x)
        return x, y, y, y.reshape(-1), x.reshape(-1)

    x = jax.numpy.asarray(REGIONS["gelu"][1][0])
    got = schedules.run(schedule(lower_function(fn, x)), (x,), REFERENCES)
    for g, w in zip(got, fn(x), strict=True):
        assert_same(g, w)


def test_xla_at_the_seam_says_why():
    """Two calls with a reshape between them are two: the second reads what the first wrote."""
    values = lambda x: jax.lax.linalg.svd(x, compute_uv=False, algorithm=jax.lax.linalg.SvdAlgorithm.QR)
    plan = schedule(lower_function(lambda x: values(values(x).reshape(3, 1, 1)) + 1, np.eye(3, dtype=np.float32)))
    reasons = [s.why for s in plan.steps if isinstance(s, ExternStep)]
    assert reasons and all(reasons)
    got = schedules.run(plan, (np.eye(3, dtype=np.float32) * 2,), REFERENCES)
    assert_same(got[0], np.full((3, 1), 3, np.float32))


def test_a_training_step_schedules_quickly():
    def loss(params, x):
        for w, g, b in params:
            x = x + jax.nn.gelu(layer_norm(x, g, b) @ w)
        return (x * x).mean()

    layers = [tuple(np.ones(s, np.float32) for s in ((32, 32), (32,), (32,))) for _ in range(12)]
    graph = lower_function(jax.value_and_grad(loss), layers, np.ones((64, 32), np.float32))
    begin = time.perf_counter()
    plan = schedule(graph)
    assert time.perf_counter() - begin < 10
    assert not [s for s in plan.steps if isinstance(s, ExternStep)]
    kernels = {id(s.kernel) for s in plan.steps if isinstance(s, KernelStep)}
    assert len(kernels) < len(plan.steps) / 2


def empty(*shape):
    return np.zeros(shape, np.float32)


EDGES = {
    "sum of nothing": (lambda x: x.sum(), (empty(0, 3),)),
    "rows of nothing": (lambda x: (x + 1).sum(1), (empty(3, 0),)),
    "join with nothing": (lambda x, y: jax.numpy.concatenate([x, y], 0), (empty(0, 3), empty(2, 3))),
    "pad nothing": (lambda x: jax.numpy.pad(x, ((1, 1), (0, 0))), (empty(0, 3),)),
    "reshape nothing": (lambda x: x.reshape(3, 0), (empty(0, 3),)),
    "product over nothing": (lambda x, y: x @ y, (empty(4, 0), empty(0, 40))),
    "no indices": (lambda x, i: x[i], (empty(3, 4), np.zeros(0, np.int32))),
    "scalar": (lambda x: x * 2, (np.float32(3),)),
    "integer product": (lambda x, y: x @ y, (np.arange(12).reshape(3, 4), np.arange(80).reshape(4, 20))),
    "strided slices": (lambda x: x[::-2, 1:3].T.sum(0), (np.ones((7, 4), np.float32),)),
    "loop at the seam": (lambda x: jax.lax.fori_loop(0, 3, lambda i, v: v * 2, x) + 1, (np.ones(5, np.float32),)),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    fn, args = EDGES[name]
    args = tuple(map(jax.numpy.asarray, args))
    plan = schedule(lower_function(fn, *args))
    check_kernels(plan)
    for g, w in zip(schedules.run(plan, args, REFERENCES), jax.tree.leaves(fn(*args)), strict=True):
        assert_same(g, w)


def test_digamma_at_its_poles_is_that_of_the_installed_jax():
    x = jax.numpy.array([0.0, -0.0, -1.0, -2.0, 0.5], np.float32)
    plan = schedule(lower_function(jax.lax.digamma, x))
    assert_same(schedules.run(plan, (x,), REFERENCES)[0], jax.lax.digamma(x))


def kernels_of(fn, *args):
    """What the fused steps are, by the names of their kernels."""
    plan = schedule(lower_function(fn, *args))
    check_kernels(plan)
    for got, want in zip(schedules.run(plan, args, REFERENCES), jax.tree.leaves(fn(*args)), strict=True):
        assert_same(got, want)
    return [s.kernel for s in plan.steps]


def test_a_step_that_is_read_at_shifted_places_is_kept():
    """Inlined, each step of a stencil would be computed again at every place that the next one reads."""
    def diffuse(u):
        for _ in range(3):
            u = u + 0.1 * (jax.numpy.roll(u, 1, 0) + jax.numpy.roll(u, -1, 0) - 2 * u)
        return u

    u = jax.numpy.asarray(np.random.default_rng(0).normal(size=(32, 16)), np.float32)
    assert len(kernels_of(diffuse, u)) == 3


def test_dear_values_that_occur_once_in_a_short_row_get_lanes_of_their_own():
    def short(x, w):
        return jax.nn.softplus(x @ w)

    def long(x, w):
        return jax.numpy.log((x * w).sum(1))

    rng = np.random.default_rng(0)
    x, w = (jax.numpy.asarray(rng.uniform(1, 2, shape), np.float32) for shape in ((100, 20), (20,)))
    assert len(kernels_of(short, x, w)) == 2
    x, w = (jax.numpy.asarray(rng.uniform(1, 2, shape), np.float32) for shape in ((100, 512), (512,)))
    assert len(kernels_of(long, x, w)) == 1


def test_kernels_with_zeros_of_either_sign_are_two():
    def zeros(x, y):
        return x.sum(0) * 0.0, (y.sum(0) * -0.0)

    x = jax.numpy.ones((4, 300), np.float32)
    plus, minus = schedules.run(schedule(lower_function(zeros, x, x + 1)), (x, x + 1), REFERENCES)
    assert not np.signbit(plus).any() and np.signbit(minus).all()


def test_literals_are_equal_by_what_they_are():
    f32 = np.dtype(np.float32)
    assert Const(float("nan"), f32) == Const(-float("nan"), f32) and Const(1, f32) == Const(1.0, f32)
    assert Const(0.0, f32) != Const(-0.0, f32) and Const(0.0, f32) != Const(0.0, np.dtype(np.float64))
    assert len({Const(complex("nan"), f32), Const(complex(0, float("nan")), f32), Const(0j, f32)}) == 3


def test_a_value_that_is_kept_and_leaves_is_computed_once():
    def fn(x, w):
        e = jax.numpy.exp(x * 3)
        return e, e @ w

    plan = schedule(lower_function(fn, np.ones((2, 8, 16), np.float32), np.ones((16, 16), np.float32)))
    check_kernels(plan)
    found = "".join(text(s.kernel) for s in plan.steps if isinstance(s, KernelStep))
    assert found.count("exp(") == 1, found


@pytest.mark.parametrize("shape", [(512, 1023), (64, 4096), (300, 7, 1000)])
def test_big_folds_are_cut_along_their_outermost_dimension(shape):
    """A block is one piece of memory: one loop over it, or rows of the whole length; not short ends of every row."""
    steps = schedule(lower_function(lambda x: x.sum(), Aval(shape, np.dtype(np.float32)))).steps
    (blocks,) = steps[0].kernel.body
    (rows,) = inner_loops(blocks.body)
    lengths = [loop.extent for loop in (rows, *inner_loops(rows.body))]
    assert blocks.parallel and lengths[-1] % math.prod(shape[1:]) == 0, text(steps[0].kernel)
