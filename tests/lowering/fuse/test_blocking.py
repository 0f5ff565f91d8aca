"""The rest of rows in blocks: where it is worth it, and that it finds the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.fuse.blocking import in_blocks
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import KernelStep
from dynacomp.lowering.interpret.schedules import run
from dynacomp.lowering.kernel_ir.machine import CPU, GPU
from dynacomp.lowering.kernel_ir.printer import parse, text
from dynacomp.lowering.kernel_ir.verifier import verify
from dynacomp.lowering.primitives.translate import lower_function

ROWS = """
kernel rows(w: f32[300, 64], x: f32[64], b: f32[300]) -> (y: f32[300]):
    parallel i0 < 300:
        vector i1 < 64:
            acc a0: sum f32 = mul(w[64*i0 + i1], x[i1])
        y[i0] = tanh(add(a0, b[i0]))
"""


def normal(*shape, seed=0):
    return jnp.asarray(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def affine(w, x, b):
    return jnp.tanh(jax.vmap(lambda w, x, b: w @ x + b)(w, x, b))


def moments(x):
    return jnp.log1p(x.var(-1)), jnp.exp(-(x * x).sum(-1)), x.max(-1)


def kept(function, *args, machine=CPU):
    """How many rows of scratch the kernels of a function hold values in for the rests of their rows."""
    kernels = [verify(s.kernel) for s in of_class(KernelStep, schedule(lower_function(function, *args), machine).steps)]
    return sum(b.name.startswith("kept") for k in kernels for b in k.locals)


def test_the_rest_of_a_block_of_rows_is_one_vector_loop():
    found = text(verify(in_blocks(parse(ROWS))))
    assert "parallel i0b < 10" in found and "for i0 < Min(32, 300 - 32*i0b)" in found
    assert "acc a0: sum f32 = mul(w[64*i0 + 2048*i0b + i1], x[i1])" in found and "kept0[i0] = a0" in found
    assert "y[i0 + 32*i0b] = tanh(add(kept0[i0], b[i0 + 32*i0b]))" in found


@pytest.mark.parametrize("change", [
    ("tanh(add(a0, b[i0]))", "add(a0, b[i0])"),  # cheap
    ("300", "40"),  # few rows
    ("64", "4096"),  # rows beside which it is nothing
    ("y[i0] = tanh(add(a0, b[i0]))", "y[299 - i0] = tanh(add(a0, b[i0]))"),  # not side by side
    ("b[i0]", "b[FloorDiv(i0, 3)]"),
])
def test_rows_stay(change):
    kernel = parse(ROWS.replace(*change))
    assert in_blocks(kernel) == kernel


def test_where_it_is_worth_it():
    assert kept(affine, normal(16, 64, 64), normal(16, 64), normal(16, 64)) == 1
    assert kept(lambda x: jnp.exp(-(x * x).sum(-1)), normal(500, 30)) == 1
    assert kept(lambda x: jax.nn.gelu(x.mean(-1)), normal(3, 200, 50)) == 1
    assert kept(lambda x: jax.nn.softmax(x), normal(500, 30)) == 0
    assert kept(lambda x: x.sum(-1) + 1, normal(500, 30)) == 0
    assert kept(affine, normal(16, 64, 64), normal(16, 64), normal(16, 64), machine=GPU) == 0


@pytest.mark.parametrize("function, args", [
    (affine, (normal(5, 64, 33), normal(5, 33), normal(5, 64))),
    (affine, (normal(2, 150, 33), normal(2, 33), normal(2, 150))),
    (moments, (normal(301, 20),)),
    (lambda x: jnp.exp(-jnp.abs(x).sum(-1)) * x.argmax(-1), (normal(16, 16, 20),)),
])
def test_the_same_in_the_interpreter(function, args):
    assert kept(function, *args)
    found = run(schedule(lower_function(function, *args)), args, {})
    for got, want in zip(found, jax.tree.leaves(function(*args)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("function, args", [
    (affine, lambda k: (normal(3, 60 + k, 20, seed=k), normal(3, 20, seed=k), normal(3, 60 + k, seed=k))),
    (moments, lambda k: (normal(190 + k, 20, seed=k),)),
    (lambda x: jnp.log(lax.cumsum(jnp.exp(x), axis=0).sum(-1)), lambda k: (normal(200 + 7 * k, 17, seed=k),)),
])
@pytest.mark.parametrize("dynamic", [True, False])
def test_the_same_at_ten_sizes(function, args, dynamic):
    compiled = dynacomp.jit(function, dynamic=dynamic)
    before = dynacomp.stats()["frames_captured"]
    sizes = range(10) if dynamic else (3,)
    for k in sizes:
        for got, want in zip(jax.tree.leaves(compiled(*args(k))), jax.tree.leaves(function(*args(k))), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    assert dynacomp.stats()["frames_captured"] == before + 1
