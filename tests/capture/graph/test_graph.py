"""Graphs: names, arguments of nodes, and what is in them."""

import collections
import operator

import jax
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Tree, closures_in, leaves_in, map_nodes, nodes_in

F32 = Aval((2,), np.dtype(np.float32))
Pair = collections.namedtuple("Pair", "left right")


def small():
    builder = Builder("small")
    x = builder.placeholder("x", F32)
    y = builder.call(operator.mul, (x, 2.0), {}, F32)
    return builder.finish((y, x)), x, y


def test_a_finished_graph_has_its_parts():
    graph, x, y = small()
    assert graph.placeholders == (x,) and graph.calls == (y,) and graph.output == (y, x)
    assert graph.nodes[-1].op == "output" and str(graph).startswith("def small(") and repr(y) == f"%{y.name}"


@pytest.mark.parametrize("base", ["x", "x_1", "1st", "class", "a b-c", "", "λ"])
def test_names_are_words_of_python_and_never_the_same(base):
    builder = Builder()
    found = [builder.fresh(name) for name in (base, base, f"{base}_1", base, f"{base}_1", base)]
    assert len(set(found)) == len(found)
    assert all(name.isidentifier() and not __import__("keyword").iskeyword(name) for name in found)


def test_nodes_are_replaced_wherever_they_stand():
    graph, x, y = small()
    tree = Tree(jax.tree.structure((0, 0)), (x, 1))
    args = (x, [y, 3], {"k": x}, slice(x, None, y), Pair(x, "t"), Closure(graph, (y,)), tree)
    named = map_nodes(args, lambda node: node.name)
    assert named[:5] == (x.name, [y.name, 3], {"k": x.name}, slice(x.name, None, y.name), Pair(x.name, "t"))
    assert named[5].captured == (y.name,) and named[5].graph is graph and named[6].leaves == (x.name, 1)
    assert [n.name for n in nodes_in(args)] == [n.name for n in (x, y, x, x, y, x, y, x)]


def test_leaves_and_closures_at_any_depth():
    graph, x, _ = small()
    inner = Closure(graph, (x,))
    args = ([inner, {"f": (inner, 1)}], Tree(jax.tree.structure(0), ("leaf",)))
    assert list(closures_in(args)) == [inner, inner]
    assert list(leaves_in(args)) == [inner, inner, 1, "leaf"]
