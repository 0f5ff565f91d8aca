"""The sizes in a Graph: found wherever they stand, also in bodies, and replaced there."""

import operator

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Tree
from dynacomp.capture.graph.graph_sizes import argument, scope_of, sizes_in, symbols, with_sizes
from dynacomp.capture.graph.interpreter import run
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.size_scope import Scope

F32 = np.dtype(np.float32)
SCOPE = Scope()
N, M = SCOPE.symbol("n", 3), SCOPE.symbol("m", 4)


def graph():
    """x.reshape(n * m) + (m given to a body)"""
    inner = Builder("inner")
    y = inner.placeholder("y", Aval((M,), F32))
    body = inner.finish(inner.call(jnp.multiply, (y, N), {}, Aval((M,), F32)))
    builder = Builder()
    x = builder.placeholder("x", Aval((N, M), F32))
    flat = builder.call(jnp.reshape, (x, (N * M,)), {}, Aval((N * M,), F32))
    part = builder.call(operator.getitem, (flat, slice(0, M, None)), {}, Aval((M,), F32))
    return builder.finish(builder.call(lambda f, y: f(y), (Closure(body), part), {}, Aval((M,), F32)))


def test_all_sizes_are_found():
    assert symbols(graph()) == {"n", "m"} and scope_of(graph()) is SCOPE
    assert {str(s) for s in sizes_in(graph())} == {str(N), str(M), str(N * M)}
    assert list(sizes_in(Aval((2, 3), F32))) == [] and scope_of(with_sizes(graph(), lambda s: 1)) is None


def test_a_graph_with_numbers_in_their_place_runs():
    known = with_sizes(graph(), lambda s: evaluate(s, {"n": 3, "m": 4}))
    assert symbols(known) == frozenset() and [p.aval.shape for p in known.placeholders] == [(3, 4)]
    x = jnp.arange(12.0).reshape(3, 4)
    assert run(known, x).tolist() == (x[0] * 3).tolist()
    assert symbols(graph()) == {"n", "m"}  # the other one is as it was


def test_arguments_keep_their_kind():
    tree = Tree(jax.tree.structure((0, 0)), (N, "leaf"))
    put = argument((N, [M, 1], {"k": N}, slice(N, None), tree, "n"), lambda s: 7)
    assert put[:4] == (7, [7, 1], {"k": 7}, slice(7, None)) and put[4].leaves == (7, "leaf") and put[5] == "n"
