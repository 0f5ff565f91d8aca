"""dynacomp.capture.portable.graphs: Graphs as data, and the same Graphs again."""

import operator
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.calls.calls import _call_object
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Tree
from dynacomp.capture.graph.interpreter import run
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.graph.sizes import extreme
from dynacomp.capture.portable import graphs
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.references import Reader, Writer

F32 = np.dtype("float32")


def again(graph):
    return graphs.read(Reader(), pickle.loads(pickle.dumps(graphs.write(Writer(), graph))))


def test_sizes_and_their_bounds():
    scope, b = Scope(), Builder()
    n, m = scope.symbol("n", 4), scope.symbol("m", 6, least=0)
    scope.bound("n", 2, 9)
    x = b.placeholder("x", Aval((n, m), F32))
    shape = (2 * n * m - m, extreme("min", n, 3 * m), (n + 1) // 3)
    made = again(b.finish((b.call(jnp.zeros, (shape,), {"dtype": F32}, None), x)))
    assert str(made.calls[0].args[0]) == str(shape)
    other = made.placeholders[0].aval.shape[0].scope
    assert other is not scope and (other.least, other.most) == ({"n": 2, "m": 0}, {"n": 9})


def test_what_nodes_hold():
    inner = Builder("body")
    y = inner.placeholder("y", Aval((3,), F32))
    body = inner.finish({"twice": inner.call(operator.mul, (y, np.float32(2.0)), {}, y.aval)})
    b = Builder()
    x = b.placeholder("x", Aval((3,), F32))
    weak = b.const(jnp.asarray(0.5), Aval((), F32, True))
    mapped = b.call(jax.vmap, (Closure(body),), {}, None)
    found = b.call(_call_object, (mapped, x), {}, None)
    part = b.call(operator.getitem, (found, "twice"), {}, x.aval)
    tree = Tree(jax.tree.structure({"a": 0, "b": 0}), (part, weak))
    rest = b.call(operator.getitem, (x, slice(1, None)), {}, None)
    graph = b.finish((b.call(jax.tree.leaves, (tree,), {}, None), rest))
    given = jnp.arange(3.0)
    made = again(graph)
    assert [n.name for n in made.nodes] == [n.name for n in graph.nodes] and made.consts["const"].weak_type
    jax.tree.map(np.testing.assert_array_equal, run(made, given), run(graph, given))


def test_what_another_process_has_not():
    b = Builder()
    x = b.placeholder("x", Aval((3,), F32))
    for target in (lambda x: x, graphs._read_array.__get__(x)):
        with pytest.raises(Unportable):
            graphs.write(Writer(), b.finish((b.call(target, (x,), {}, x.aval),)))
    b = Builder()
    big = b.const(jnp.zeros(1 << 19), Aval((1 << 19,), F32))
    with pytest.raises(Unportable, match="an array"):
        graphs.write(Writer(), b.finish((big,)))
