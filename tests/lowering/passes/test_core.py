"""`lowering.passes.core`: one node for what is equal, none for what nobody reads."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.passes.core import dead_code, merge_common
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.passes.pass_kit import names

SHAPE, F32 = (4, 5), np.dtype("float32")
VEC = Aval((3,), F32)


def test_merging():
    def fn(x):
        return jnp.sin(x) + jnp.sin(x), jnp.cos(x) * -0.0, jnp.cos(x) * 0.0

    graph = dead_code(merge_common(lower_function(fn, VEC)))
    assert sorted(names(graph)) == ["add", "cos", "mul", "mul", "sin"]


def test_merging_minds_parameters():
    fn = lambda x: (jnp.sum(x, 0), jnp.sum(x, 1), jnp.sum(x, 0))
    assert names(optimise(lower_function(fn, Aval(SHAPE, F32)))) == ["reduce_sum"] * 2


def test_one_node_for_one_constant():
    table = jnp.arange(9.0)
    graph = optimise(lower_function(lambda i: (table[i], table + i), Aval((), np.dtype("int32"))))
    assert len(graph.consts) == 1


def test_dead_code_goes_and_placeholders_stay():
    graph = optimise(lower_function(lambda x, y: (jnp.exp(y), x)[1] + 1, VEC, VEC))
    assert names(graph) == ["add"] and len(graph.placeholders) == 2
