"""lowering.passes.cost: flops as XLA counts them where both count the same, bytes, and unknown sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.passes.cost import count
from dynacomp.lowering.primitives.translate import lower_function

A, B = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
IMAGE, FILTER = np.ones((2, 3, 9, 9), np.float32), np.ones((6, 3, 3, 3), np.float32)


@pytest.mark.parametrize("fn, args", [
    (lambda a, b: a @ b, (A, B)),
    (lambda a, b: a @ b + 1, (A, B)),
    (lambda x, w: lax.conv(x, w, (1, 1), "VALID"), (IMAGE, FILTER)),
    (lambda x: x * 2 + x, (A,)),
])
def test_flops_are_xlas(fn, args):
    theirs = jax.jit(fn).lower(*args).compile().cost_analysis()["flops"]
    assert abs(count(lower_function(fn, *args)).flops - theirs) <= 0.02 * theirs


def test_unknown_sizes_stay_in_the_answer():
    n = Scope().symbol("n", 8)
    cost = count(lower_function(lambda x, w: x @ w, Aval((n, 16), np.dtype(np.float32)), B))
    (size,) = cost.flops.free_symbols
    assert cost.flops == 128 * size and cost.bytes == 4 * (16 * size + 64 + 4 * size)
    assert cost.at(n=8).flops == count(lower_function(lambda x, w: x @ w, A, B)).flops == 1024


def test_moving_costs_bytes_alone_and_the_dearest_op_comes_first():
    cost = count(lower_function(lambda a, b: jnp.exp(a.T)[:2] + (a @ b).sum(), A, B))
    assert next(iter(cost.by_op)) == "dot_general" and cost.by_op["transpose"].flops == 0
    assert cost.by_op["transpose"].bytes == 2 * A.nbytes
    assert str(cost).startswith(f"{sum(c.flops for c in cost.by_op.values())} flops")


def test_the_body_of_what_xla_runs_is_counted():
    graph = lower_function(lambda a: jnp.linalg.cholesky(a @ a.T) + lax.sort(a @ a.T), A)
    assert count(graph).flops > 2 * 2 * 8 * 8 * 16


def test_a_scan_costs_its_body_as_often_as_it_runs():
    once = count(lower_function(lambda a, b: a @ b, A, B)).flops
    loop = lambda a, b: lax.scan(lambda c, _: (c @ b @ b.T, None), a, None, length=50)[0]
    assert count(lower_function(loop, A, B)).flops == 50 * 2 * once
    branches = lambda a, b: lax.cond(a[0, 0] > 0, lambda: a @ b, lambda: (a @ b) * 2)
    assert 2 * 8 * 16 * 4 < count(lower_function(branches, A, B)).flops < 1.1 * (2 * 8 * 16 * 4 + 32)
