"""`lowering.passes.pipeline*`: each row changes the Graph as it says, and no bit of any value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes import fold
from dynacomp.lowering.passes.core import dead_code, merge_common
from dynacomp.lowering.passes.pipeline import PASSES, optimise
from dynacomp.lowering.passes.simplify import ROWS
from dynacomp.lowering.primitives.ops import OPS, infer
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import lower_function

SHAPE, F32 = (4, 5), np.dtype("float32")
VEC = Aval((3,), F32)
NASTY = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-45, 1.5, -2.25, 3e38, -1e-38, 1e-37, 7, 8, 9,
                  0.1, -0.3, 2.0**-126, 1.0, -1.0], np.float32).reshape(SHAPE)
HALF = NASTY.astype(jnp.bfloat16)
INTS = np.arange(-10, 10, dtype=np.int32).reshape(SHAPE)

# name → (function, input, names of the Ops that are left)
SIMPLIFIED = {
    "reshape of reshape": (lambda x: x.reshape(2, 10).reshape(20), NASTY, ["reshape"]),
    "reshape back": (lambda x: x.reshape(2, 10).reshape(4, 5), NASTY, []),
    "squeeze of expand": (lambda x: lax.squeeze(x[:, None], (1,)), NASTY, []),
    "broadcast of broadcast": (lambda x: x + x[0][None].reshape(1, 5), NASTY,
                               ["slice", "reshape", "broadcast_in_dim", "add"]),
    "transpose back": (lambda x: x.T.T, NASTY, []),
    "transpose of transpose": (lambda x: x.reshape(2, 2, 5).transpose(1, 2, 0).transpose(1, 0, 2), NASTY,
                               ["reshape", "transpose"]),
    "whole slice": (lambda x: x[0:4, :], NASTY, []),
    "slice of slice": (lambda x: x[1:4, ::2][1:, 1:], NASTY, ["slice"]),
    "empty slice of slice": (lambda x: x[1:4, ::2][1:, 3:], NASTY, ["slice", "slice"]),
    "part of a concatenation": (lambda x: jnp.concatenate([x, -x, x])[5:7, ::2], NASTY, ["neg", "slice"]),
    "whole part": (lambda x: jnp.concatenate([x, -x])[4:], NASTY, ["neg"]),
    "parts of two": (lambda x: jnp.concatenate([x, -x])[3:5], NASTY, ["neg", "concatenate", "slice"]),
    "transposed ones": (lambda x: x[1:2].T, NASTY, ["slice", "reshape"]),
    "no padding": (lambda x: jnp.pad(x, ((0, 0), (0, 0))), NASTY, []),
    "one concatenated": (lambda x: lax.concatenate([x], 0), NASTY, []),
    "known dynamic slice": (lambda x: lax.dynamic_slice(x, (9, -9), (2, 5)), NASTY, ["slice"]),
    "whole update": (lambda x: lax.dynamic_update_slice(x, -x, (3, 2)), NASTY, ["neg"]),
    "same dtype": (lambda x: lax.convert_element_type(x, jnp.float32), NASTY, []),
    "there and back": (lambda x: x.astype(jnp.int32).astype(jnp.int8), INTS.astype(np.int8), []),
    "half there and back": (lambda x: x.astype(jnp.float32).astype(jnp.bfloat16), HALF, []),
    "narrowing stays": (lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), NASTY,
                        ["convert_element_type"] * 2),
    "negated twice": (lambda x: lax.neg(lax.neg(x)), NASTY, []),
    "integer identities": (lambda x: lax.max((x * 1 + 0) | 0, np.int32(-(2**31))), INTS, []),
    "float one stays": (lambda x: x * 1.0, NASTY, ["mul"]),
    "float zero stays": (lambda x: x + 0.0, NASTY, ["add"]),
    "lowest float stays": (lambda x: lax.max(x, np.float32(-np.inf)), NASTY, ["max"]),
    "halving": (lambda x: x / 2, NASTY, ["mul"]),
    "thirds": (lambda x: x / 3, NASTY, ["div"]),
    "dividing by a tiny power": (lambda x: x / np.float32(2.0**-127), NASTY, ["div"]),
    "scalar broadcast": (lambda x: x * jnp.full(SHAPE, 3.0), NASTY, ["mul"]),
    "fills": (lambda x: jnp.full(SHAPE, 2.0) + jnp.ones(SHAPE), NASTY, ["broadcast_in_dim"]),
    "known choice": (lambda x: jnp.where(jnp.zeros(SHAPE, bool), x + 1, x), NASTY, []),
    "same choice": (lambda x: jnp.where(x > 0, x, x), NASTY, []),
    "no axes": (lambda x: jnp.sum(x, ()), NASTY, []),
    "axes of one": (lambda x: jnp.sum(x[:, None], 1), NASTY, []),
    "axes of one, kept": (lambda x: jnp.max(x[None, :, None], (0, 2), keepdims=True), NASTY,
                          ["broadcast_in_dim"]),
}


def names(graph):
    return [getattr(n.target, "name", "getitem") for n in graph.calls]


def bits(x):
    x = np.asarray(x)
    return x.dtype, x.shape, np.where(x != x, np.nan, x).tobytes() if x.dtype.kind == "f" else x.tobytes()


@pytest.mark.parametrize("name", SIMPLIFIED)
def test_simplify(name):
    fn, x, left = SIMPLIFIED[name]
    graph = optimise(lower_function(fn, x))
    verify(graph, infer)
    assert names(graph) == left
    assert bits(run(graph, jnp.asarray(x))[0]) == bits(fn(jnp.asarray(x)))


def test_rows_are_about_ops():
    assert set(ROWS) <= set(OPS)


def test_folding_keeps_types():
    graph = optimise(lower_function(lambda x: x * lax.sin(lax.convert_element_type(2, jnp.float32)), VEC))
    scalar = next(a for a in graph.calls[-1].args if isinstance(a, np.generic))
    assert scalar == np.float32(jnp.sin(jnp.float32(2))) and scalar.dtype == np.float32


def test_folding_leaves_big_constants_to_loops():
    graph = optimise(lower_function(lambda x: x + jnp.arange(5000), Aval((5000,), np.dtype("int32"))))
    assert names(graph) == ["iota", "add"] and not graph.consts


def test_folding_works_under_a_trace():
    graph = lower_function(lambda x: x + jnp.cos(jnp.float32(0)), Aval((), F32))
    jax.make_jaxpr(lambda y: (optimise(graph), y)[1])(1.0)


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


def test_passes_are_idempotent():
    graph = optimise(lower_function(lambda x: jax.nn.gelu(x) / 2 + jax.nn.softmax(x), Aval((3, 4), F32)))
    for one in PASSES:
        assert names(one(graph)) == names(graph), one.__name__


def test_lowered_text(golden):
    graph = optimise(lower_function(jax.grad(lambda x: jax.nn.log_softmax(x)[0, 1]), Aval(SHAPE, F32)))
    golden("log_softmax_grad.txt", f"{graph}\n")


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
