"""`capture.graph.verifier`: each rule that a Graph can break is found, and named."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval, as_struct, aval_of
from dynacomp.capture.graph.graph import Builder, Closure, Graph, Node
from dynacomp.capture.graph.verifier import GraphError, verify

F32 = np.dtype("float32")
VEC = Aval((3,), F32)


def infer(node):
    """The Aval of a captured call, as JAX says it."""
    return aval_of(jax.eval_shape(node.target, *(as_struct(a.aval) if isinstance(a, Node) else a for a in node.args)))


def good():
    b = Builder()
    x = b.placeholder("x", VEC)
    c = b.const(np.ones(3, np.float32), VEC, "table")
    y = b.call(jnp.sin, (x,), {}, VEC, where=(("model.py", 7, "f"),))
    return b.finish((b.call(jnp.add, (y, c), {}, VEC), y))


def with_nodes(change):
    """The good graph with its tuple of nodes changed."""
    graph = good()
    return replace(graph, nodes=tuple(change(graph.nodes)))


def edited(**changes):
    """The good graph with its last call changed."""
    nodes = good().nodes
    add = replace(nodes[3], **changes)
    return Graph((*nodes[:3], add, Node("output", "output", args=((add,),))), good().consts)


def test_a_good_graph_passes():
    verify(good(), infer)


BAD = {
    "uses %sin, which is not defined": lambda: with_nodes(lambda n: (*n[:2], *n[3:])),
    "a graph ends with an output": lambda: with_nodes(lambda n: n[:-1]),
    "nodes follow the output": lambda: with_nodes(lambda n: (*n, replace(n[-1], name="again"))),
    "placeholder stands after": lambda: with_nodes(
        lambda n: (*n[:-1], Node("placeholder", "z", aval=VEC), n[-1])),
    "second node is called 'x'": lambda: edited(name="x"),
    "'a b' is no Python identifier": lambda: edited(name="a b"),
    "'or' is no Python identifier": lambda: edited(name="or"),
    "has no Aval": lambda: edited(aval=None),
    "'call_magic' is no kind": lambda: edited(op="call_magic"),
    "cannot be called": lambda: edited(target=5),
    "hold no Closures": lambda: edited(op="call_graph"),
    "no constant is called": lambda: replace(good(), consts={}),
    "but the constant is": lambda: replace(good(), consts={"table": np.ones(4, np.float32)}),
    "an output has one argument": lambda: with_nodes(lambda n: (*n[:-1], replace(n[-1], args=()))),
}


@pytest.mark.parametrize("complaint", BAD)
def test_faults_are_named(complaint):
    with pytest.raises(GraphError, match=complaint):
        verify(BAD[complaint]())


def test_the_users_line_is_named():
    graph = good()
    moved = replace(graph.nodes[2], aval=None)
    with pytest.raises(GraphError, match=r"%sin \(model.py:7 in f\): has no Aval"):
        verify(Graph((*graph.nodes[:2], moved, *graph.nodes[3:]), graph.consts))


WRONG = [Aval((4,), F32), Aval((3,), np.dtype("int32")), Aval((3, 1), F32), (VEC, VEC)]


@pytest.mark.parametrize("aval", WRONG, ids=repr)
def test_wrong_avals_are_found(aval):
    with pytest.raises(GraphError, match="claims .* but"):
        verify(edited(aval=aval), infer)


def test_impossible_arguments_are_found():
    with pytest.raises(GraphError, match="do not fit .*shapes"):
        verify(edited(args=(np.ones(3), np.ones(4))), infer)


def test_bodies_are_verified_too():
    b = Builder()
    x = b.placeholder("x", VEC)
    body = Graph((Node("output", "output", args=(x,)),), name="body")
    graph = b.finish(b.call(jax.vmap, (Closure(body),), {}, VEC))
    with pytest.raises(GraphError, match="uses %x"):
        verify(graph)


def test_weak_types_do_not_count():
    verify(edited(aval=Aval((3,), F32, weak_type=True)), infer)
