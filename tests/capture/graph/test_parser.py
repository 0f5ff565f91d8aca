"""`capture.graph.printer` and `capture.graph.parser`: what prints reads back."""

from __future__ import annotations

import enum
import inspect
import operator
from typing import NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Tree
from dynacomp.capture.graph.parser import GraphSyntaxError, parse, same
from dynacomp.capture.graph.printer import Printer, references
from dynacomp.capture.graph.size_scope import Scope

F32 = np.dtype("float32")
VEC = Aval((3,), F32)


class Mode(enum.Enum):
    FAST = 1


class Pair(NamedTuple):
    left: object
    right: object


def model(*args, **kwargs):
    """A target that takes anything."""


VALUES = [
    None, True, 3, -4, 2.5, -0.5, float("inf"), 1 + 2j, "text, with (brackets", b"bytes", ..., (), (1,),
    [1, [2]], {"a": (1, 2), 3: None}, slice(None, 4, -1), np.float32(0.1), np.float64(1e300), np.int8(-3),
    np.bool_(True),
    np.complex64(1 - 2j), jnp.bfloat16(0.1015625), F32, np.dtype(jnp.bfloat16), jnp.float32, Mode.FAST,
    Pair(1, (2,)), jax.lax.GatherScatterMode.CLIP, jnp.sin, operator.add, model,
    jax.lax.GatherDimensionNumbers((0,), (1,), (0,)), object(), lambda x: x, jax.tree.structure([1, 2]),
    jax.lax.ge_p, jax.extend.core.Primitive("ge"),
]


def round_trip(graph):
    text = str(graph)
    consts = dict(graph.consts)
    for node in graph.nodes:
        for a in node.args:
            consts |= a.graph.consts if isinstance(a, Closure) else {}
    again = parse(text, references(graph), consts)
    assert str(again) == text
    assert same(graph, again)
    return again


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_arguments(value):
    b = Builder()
    x = b.placeholder("x", VEC)
    call = b.call(model, (x, value), {"key": value, "deep": [x, (value,)]}, VEC)
    again = round_trip(b.finish((call, value)))
    back = again.calls[0].args[1]
    assert type(back) is type(value) and (back is value or back == value)


def test_nan():
    b = Builder()
    call = b.call(model, (np.float32("nan"), float("nan")), {}, VEC)
    one, two = round_trip(b.finish(call)).calls[0].args
    assert np.isnan(one) and one.dtype == np.float32 and np.isnan(two)


def test_everything_at_once():
    inner = Builder("body")
    p, q = inner.placeholder("p", VEC), inner.placeholder("q", VEC)
    c = inner.const(np.arange(3.0), Aval((3,), np.dtype("float64")), "table")
    body = inner.finish([inner.call(jnp.multiply, (p, q), {}, VEC), c])
    b = Builder("outer")
    x = b.placeholder("x", Aval((3,), F32, weak_type=True))
    k = b.placeholder("k", Aval((), jax.random.key(0).dtype))
    plain = b.call(jax.vmap, (Closure(body, (x,)),), {}, None)
    signed = b.call(jax.vmap, (Closure(body, (x,), inspect.signature(model)),), {}, VEC)
    tree = Tree(jax.tree.structure({"a": 0, "b": 0}), (x, 2.0))
    part = Tree(jax.tree.structure((0,)), (x,), given=True)
    leaf = b.call(model, (tree, plain, k), {"mode": signed, "part": part}, (VEC, VEC))
    item = b.call(operator.getitem, (leaf, 0), {}, VEC)
    graph = b.finish({"out": item, "rest": [x, None]})
    refs = references(graph)
    text = str(graph)
    again = parse(text, refs | {"key": k.aval.dtype}, body.consts)
    assert str(again) == text and same(graph, again)
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]


def test_names_of_nodes_do_not_become_sizes():
    n = Scope().symbol("n", 4)
    b = Builder()
    node = b.placeholder("n", Aval((n,), F32))
    graph = b.finish(b.call(jnp.reshape, (node, (n, 1)), {}, Aval((n, 1), F32)))
    again = parse(str(graph), references(graph))
    assert same(graph, again)
    assert again.calls[0].args == (again.placeholders[0], (n, 1))


def test_same_tells_targets_and_objects_apart():
    def one(target, value):
        b = Builder()
        return b.finish(b.call(target, (value,), {}, VEC))

    assert same(one(model, 1), one(model, 1))
    assert not same(one(model, 1), one(model, 2))
    assert not same(one(model, object()), one(model, object()))
    assert not same(one(lambda x: x, 1), one(lambda x: x, 1))


@pytest.mark.parametrize("text, complaint", [
    ("graph(x)", "is not `def name"),
    ("def graph(x: f32[2]):\n    y is x", "is not `name = call"),
    ("def graph(x: f32[2]):\n    y = x  # f32[2]", "is not a call"),
    ("def graph(x: f32[2]):\n    y = nowhere.sin(x)  # f32[2]", "no target is called 'nowhere.sin'"),
    ("def graph(x: f32):\n    return x", "is not an Aval"),
    ("def graph(x: f99[2]):\n    return x", "'f99' is no dtype"),
    ("def graph(x: f32[2]):\n    return nowhere.y", "nothing is called 'nowhere.y'"),
    ("def graph(x: f32[2]):\n    return x if x else x", "has no meaning"),
    ("def graph(x: f32[2]):\n    return (x", "is not an expression"),
])
def test_complaints(text, complaint):
    with pytest.raises(GraphSyntaxError, match=complaint):
        parse(text)


def test_public_names_are_shown():
    assert Printer().value(jnp.sin) == "jax.numpy.sin"
    assert Printer().value(jax.nn.softmax) == "jax.nn.softmax"
