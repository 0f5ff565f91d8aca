"""`lowering.passes.fold`: constants are computed once, to the bits of eager JAX, by NumPy where that knows them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.passes.pass_kit import names

F32 = np.dtype("float32")
VEC = Aval((3,), F32)


def test_folding_keeps_types():
    graph = optimise(lower_function(lambda x: x * lax.sin(lax.convert_element_type(2, jnp.float32)), VEC))
    scalar = next(a for a in graph.calls[-1].args if isinstance(a, np.generic))
    assert scalar == np.float32(jnp.sin(jnp.float32(2))) and scalar.dtype == np.float32


def test_folding_leaves_big_constants_to_loops():
    graph = optimise(lower_function(lambda x: x + jnp.arange(5000), Aval((5000,), np.dtype("int32"))))
    assert names(graph) == ["iota", "add"] and not graph.consts


def test_folding_works_under_a_trace():
    graph = lower_function(lambda x: x + jnp.cos(jnp.float32(0)), Aval((), F32))
    found = []
    jax.make_jaxpr(lambda y: (found.append(optimise(graph)), y)[1])(1.0)
    assert names(found[0]) == ["add"] == names(optimise(graph)), "the cosine is known"
