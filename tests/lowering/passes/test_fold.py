"""`lowering.passes.fold`: constants are computed once, to the bits of eager JAX, by NumPy where that knows them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.avals import Aval
from dynacomp.lowering.passes import fold
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.ops import OPS
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


VALUES = {np.float32: [0.0, -0.0, 1.5, -3e38, 3e38, np.nan, np.inf, 1e-40], np.int32: [0, -1, 7, 2**31 - 1, -2**31],
          np.bool_: [True, False], np.uint8: [0, 3, 255]}


@pytest.mark.parametrize("dtype", VALUES)
def test_numpy_folds_to_the_bits_of_eager_jax(dtype):
    for name, op in OPS.items():
        if name not in fold._EXACT or dtype is np.bool_ and name in ("add", "sub", "mul") or (
                dtype is np.float32 and name in ("and", "or", "xor", "not")):
            continue
        for a in map(dtype, VALUES[dtype]):
            for b in map(dtype, VALUES[dtype]):
                args = (a,) if name == "not" else (a, b) if name != "select_n" else (np.bool_(a), a, b)
                got = fold.evaluate(op, args, {})
                want = np.asarray(op(*map(jnp.asarray, args)))
                assert (got.dtype, got.tobytes()) == (want.dtype, want.tobytes()) or np.isnan([got, want]).all(), name


def test_what_numpy_folds_is_compiled_by_nobody(monkeypatch):
    monkeypatch.setattr(jax, "ensure_compile_time_eval", None)  # JAX cannot be asked
    assert fold.evaluate(OPS["add"], (np.int16(3), np.int16(4)), {}) == 7
    with pytest.raises(TypeError):
        fold.evaluate(OPS["sqrt"], (np.float32(3),), {})
