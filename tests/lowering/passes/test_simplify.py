"""`lowering.passes.simplify`: each row changes the Graph as it says, and no bit of any value."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.passes.simplify import ROWS
from dynacomp.lowering.primitives.ops import OPS, infer
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.passes.pass_kit import names

SHAPE, F32 = (4, 5), np.dtype("float32")
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
    "concatenated twice": (lambda x: jnp.concatenate([jnp.concatenate([-x, x]), x]), NASTY, ["neg", "concatenate"]),
    "concatenated across": (lambda x: jnp.concatenate([lax.concatenate([x, x], 0)] * 2, 1), NASTY,
                            ["concatenate", "concatenate"]),
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
