"""One Schedule for every size: symbolic batch and length against JAX at several sizes.

The reference is jitted, only to save the time of compiling every eager operation for every size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering import regions as r
from tests.lowering.fuse.test_fusion import REFERENCES, assert_same, check_kernels

SCOPE = Scope()
b, s = SCOPE.symbol("b", 5), SCOPE.symbol("s", 7)
IDS = "ids"  # integers below 32

CASES = {
    "softmax": (jax.nn.softmax, [(b, s)], 1),
    "softmax_axis0": (lambda x: jax.nn.softmax(x, 0), [(b, s)], 1),
    "layer_norm": (r.layer_norm, [(b, s, 32), (32,), (32,)], 1),
    "layer_norm_grad": (
        jax.grad(lambda *a: (r.layer_norm(*a) ** 2).sum(), (0, 1, 2)),
        [(b, s, 32), (32,), (32,)],
        None,
    ),
    "cross_entropy": (r.cross_entropy, [(b, 32), (IDS, b)], None),
    "cross_entropy_grad": (jax.grad(r.cross_entropy), [(b, 32), (IDS, b)], 1),
    "gelu": (jax.nn.gelu, [(b, s)], 1),
    "adam": (r.adam, [(b, s)] * 4 + [()], 1),
    "embedding_bag": (r.embedding_bag, [(50, 16), (IDS, b, s)], 1),
    "embedding_bag_grad": (jax.grad(lambda t, i: (r.embedding_bag(t, i) ** 2).sum()), [(50, 16), (IDS, b, s)], None),
    "attention": (r.attention, [(b, s, 3, 16)] * 3, None),
    "attention_grad": (jax.grad(lambda *a: r.attention(*a).sum(), (0, 1, 2)), [(b, s, 3, 16)] * 3, None),
    "mlp_grad": (jax.grad(r.mlp_loss, (1, 2, 3, 4)), [(b, 32), (32, 64), (64,), (64, 10), (10,)], None),
    "pad": (lambda x: jnp.pad(jnp.exp(x), ((1, 2), (3, 0)), constant_values=7), [(b, s)], 1),
    "cumsum": (lambda x: jnp.cumsum(x, -1), [(b, s)], 1),
    "concat": (lambda x, y: jnp.concatenate([x, jnp.sin(y)], 1), [(b, s), (b, 4)], 1),
    "reshape": (lambda x: jnp.exp(x.reshape(x.shape[0] * x.shape[1], 8)).sum(-1), [(b, s, 8)], 1),
    "big_total": (lambda x: (x * x).sum(), [(b, s, 32)], 2),
    "mean": (lambda x: x.mean(0), [(b, s)], 1),
    "max_pool": (r.max_pool, [(b, 8, 8, 3)], 1),
    "conv": (r.conv, [(b, 9, 8, 3), (3, 3, 3, 5)], None),
    "one_hot": (lambda i: jax.nn.one_hot(i, 10), [(IDS, b)], 1),
}


def aval(shape):
    return Aval(shape[1:], np.dtype(np.int32)) if shape[:1] == (IDS,) else Aval(shape, np.dtype(np.float32))


def example(shape, sizes):
    dims = tuple(sizes[str(d)] if d is b or d is s else d for d in shape if d is not IDS)
    return jnp.asarray(r.ints(32, *dims) if shape[:1] == (IDS,) else abs(r.f32(*dims)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_every_size(name):
    fn, shapes, kernels = CASES[name]
    plan = schedule(lower_function(fn, *map(aval, shapes)))
    check_kernels(plan)
    assert kernels is None or len(plan.steps) == kernels
    for sizes in ({"b": 9, "s": 8}, {"b": 3, "s": 17}, {"b": 1, "s": 1}):
        args = tuple(example(shape, sizes) for shape in shapes)
        got = schedules.run(plan, args, REFERENCES)
        for g, w in zip(got, jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
            assert_same(g, w, rtol=1e-4)
