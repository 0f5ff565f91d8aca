"""The interpreter of Graphs: what a node's target returns, with bodies as Python functions."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Graph, Tree
from dynacomp.capture.graph.interpreter import as_callable, run

F32 = Aval((2,), np.dtype(np.float32))
X = jnp.asarray([1.0, -2.0])


def scaled():
    """def body(k, x): return x * k"""
    builder = Builder("body")
    k, x = builder.placeholder("k", F32), builder.placeholder("x", F32)
    return builder.finish(builder.call(operator.mul, (x, k), {}, F32))


def test_constants_calls_and_the_shape_of_the_output():
    builder = Builder()
    x = builder.placeholder("x", F32)
    three = builder.const(np.float32(3), Aval((), np.dtype(np.float32)))
    clipped = builder.call(jnp.clip, (x,), {"min": three}, F32)
    graph = builder.finish({"first": (clipped, 1), "x": [x]})
    found = run(graph, X)
    assert found["first"][0].tolist() == [3.0, 3.0] and found["first"][1] == 1 and found["x"][0] is X


def test_bodies_are_functions_of_pytrees_behind_what_they_capture():
    body = scaled()
    assert as_callable(body, (X,))({"only": X}).tolist() == [1.0, 4.0]
    builder = Builder()
    x = builder.placeholder("x", F32)
    tree = Tree(jax.tree.structure((0, 0)), (x, 1.0))
    node = builder.call(lambda f, pair: f(pair[0]) + pair[1], (Closure(body, (x,)), tree), {}, F32)
    graph = builder.finish(node)
    assert run(graph, X).tolist() == (X * X + 1).tolist()
    assert jax.jit(lambda x: run(graph, x))(X).tolist() == (X * X + 1).tolist()


def test_bodies_give_back_parts_of_what_they_were_given():
    builder = Builder("body")
    builder.placeholder("x", F32)
    y = builder.placeholder("y", F32)
    part = Tree(jax.tree.structure([0]), (y,), given=True)
    body = as_callable(builder.finish((part, [part], Tree(jax.tree.structure([0]), (y,)))))
    given = [X + 1]
    first, second, copy = body(X, {"inside": given})
    assert first is given and second[0] is given and copy is not given and copy[0] is given[0]


def test_errors_are_those_of_the_target_or_speak_of_the_graph():
    body = scaled()
    with pytest.raises(TypeError, match="graph 'body' takes 2 inputs, got 1"):
        run(body, X)
    with pytest.raises(ValueError, match="no output"):
        run(Graph(body.nodes[:-1], name="open"), X, X)
    with pytest.raises(TypeError, match="incompatible shapes"):
        run(body, X, jnp.ones(3))
