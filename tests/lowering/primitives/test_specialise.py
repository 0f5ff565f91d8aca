"""`primitives.specialise`: one Graph of symbolic sizes, with sizes put in, is the Graph of those sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.primitives import specialise
from dynacomp.lowering.primitives.translate import lower_function

F32 = np.dtype("float32")


def looped(x):
    return jax.lax.fori_loop(0, 3, lambda i, v: v * 2 + x.shape[0], x)


PROGRAMS = {
    "shape": lambda x: x.reshape(-1)[::-1],
    "number": lambda x: x.mean() * x.shape[0],
    "iota": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "body": looped,
    "branches": lambda x: jax.lax.cond(x.sum() > 0, lambda v: v / v.shape[0], lambda v: v.cumsum(0), x),
    "extern": lambda x: jnp.linalg.eigvals(x.T @ x).real.sum() * 0 + x.sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_each_size(name):
    fn, n = PROGRAMS[name], Scope().symbol("n", 2)
    graph = lower_function(fn, Aval((n, 3), F32))
    for size in (1, 4, 7):
        static = specialise.specialise(graph, {"n": size})
        assert all(type(d) is int for node in static.nodes for a in jax.tree.leaves(
            node.aval, is_leaf=lambda a: isinstance(a, Aval)) if isinstance(a, Aval) for d in a.shape)
        x = jnp.arange(3.0 * size).reshape(size, 3)
        np.testing.assert_allclose(specialise.run(graph, x)[0], fn(x), rtol=1e-5)


def test_other_sizes_stay():
    scope = Scope()
    avals = [Aval((scope.symbol(name, 2),), F32) for name in "nm"]
    graph = lower_function(lambda x, y: x.sum() * y, *avals)
    half = specialise.specialise(graph, {"n": 2})
    assert [str(p.aval.shape) for p in half.placeholders] == ["(2,)", "(m,)"]
