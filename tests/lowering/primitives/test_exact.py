"""`lowering.primitives.exact`: constants computed by NumPy have the bits of eager JAX; nothing is compiled for them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.lowering.primitives import exact
from dynacomp.lowering.primitives.ops import OPS
from dynacomp.lowering.primitives.translate import lower_function

VALUES = {np.float32: [0.0, -0.0, 1.5, -2.5, -3e38, 3e38, np.nan, np.inf, -np.inf, 1e-40, 7.0, 1 / 3],
          np.int32: [0, -1, 7, 3, 2**31 - 1, -2**31], np.bool_: [True, False], np.uint8: [0, 3, 255]}
UNARY = {"abs", "ceil", "floor", "is_finite", "neg", "not", "sign", "sqrt"}
FLOATS_ONLY = {"ceil", "floor", "is_finite", "sqrt"}
INTEGERS_ONLY = {"and", "or", "xor", "not", "shift_left", "shift_right_arithmetic", "shift_right_logical"}
OF_BOOLS = {"and", "or", "xor", "not", "eq", "ne", "lt", "le", "gt", "ge"}


def takes(name, dtype):
    if dtype is np.bool_:
        return name in OF_BOOLS
    if dtype is np.float32:
        return name not in INTEGERS_ONLY
    return name not in FLOATS_ONLY and not (dtype is np.uint8 and name in ("neg", "abs"))


def bits(x):
    x = np.asarray(x)
    return x.dtype, x.shape, np.where(np.isnan(x), 0, x).tobytes() if x.dtype.kind == "f" else x.tobytes()


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("name", sorted(exact._SCALARS))
def test_scalars_have_the_bits_of_eager_jax(name, dtype):
    if not takes(name, dtype):
        pytest.skip("not defined")
    values = np.array(VALUES[dtype], dtype)
    pairs = [values] if name in UNARY else [*map(np.ravel, np.meshgrid(values, values))]
    want = OPS[name](*map(jnp.asarray, pairs))
    for i, args in enumerate(zip(*pairs)):
        assert bits(exact.evaluate(OPS[name], args, {})) == bits(want[i]), args
    assert bits(exact.evaluate(OPS[name], pairs, {})) == bits(want)


@pytest.mark.parametrize("name", ["div", "sqrt", "add", "mul"])
def test_what_is_rounded_is_rounded_alike(name):
    rng = np.random.default_rng(3)
    args = [np.exp(rng.normal(0, 20, 1000)).astype(np.float32) for _ in range(1 if name == "sqrt" else 2)]
    with jax.ensure_compile_time_eval():
        want = OPS[name](*args)
    for i in range(1000):
        assert bits(exact.evaluate(OPS[name], [a[i] for a in args], {})) == bits(want[i])


@pytest.mark.parametrize("old", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("new", ["float32", "int32", "uint8", "int8", "bool", "bfloat16", "float16", "uint32"])
def test_conversions_have_the_bits_of_eager_jax(old, new):
    values = np.array([*VALUES[old], *([16777217, 2**31 - 65] if old is np.int32 else [])], old)
    want = OPS["convert_element_type"](values, new_dtype=jnp.dtype(new))
    got = exact.evaluate(OPS["convert_element_type"], (values,), {"new_dtype": jnp.dtype(new)})
    assert bits(got.astype(np.float32) if got.dtype.kind == "V" else got) == bits(
        np.asarray(want).astype(np.float32) if got.dtype.kind == "V" else want)


MOVES = [
    ("broadcast_in_dim", [(3,)], {"shape": (2, 3, 4), "broadcast_dimensions": (1,)}),
    ("broadcast_in_dim", [(3, 1)], {"shape": (3, 4), "broadcast_dimensions": (0, 1)}),
    ("broadcast_in_dim", [()], {"shape": (), "broadcast_dimensions": ()}),
    ("concatenate", [(2, 3), (2, 1)], {"dimension": 1}),
    ("reshape", [(2, 6)], {"new_sizes": (3, 4)}),
    ("reshape", [(1,)], {"new_sizes": ()}),
    ("rev", [(2, 3)], {"dimensions": (1,)}),
    ("slice", [(5, 4)], {"start_indices": (1, 0), "limit_indices": (5, 3), "strides": (2, 1)}),
    ("slice", [(5,)], {"start_indices": (2,), "limit_indices": (2,), "strides": None}),
    ("transpose", [(2, 3, 4)], {"permutation": (2, 0, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64"])
@pytest.mark.parametrize("name, shapes, params", MOVES)
def test_moves_have_the_bits_of_eager_jax(monkeypatch, name, shapes, params, dtype):
    rng = np.random.default_rng(1)
    args = [np.asarray(1e-39 + 9 * rng.normal(size=s)).astype(jnp.dtype(dtype)) for s in shapes]
    want = np.asarray(OPS[name](*args, **params))
    monkeypatch.setattr(jax, "ensure_compile_time_eval", None)  # JAX cannot be asked
    got = exact.evaluate(OPS[name], args, params)
    assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "uint8"])
def test_counters(dtype):
    params = {"dtype": jnp.dtype(dtype), "shape": (3, 300), "dimension": 1}
    want = np.asarray(OPS["iota"](**params))
    got = exact.evaluate(OPS["iota"], (), params)
    assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@pytest.mark.parametrize("which, cases", [
    (np.bool_(True), (np.float32(1), np.float32(2))),
    (np.array([True, False]), (np.float32(1), np.array([3, 4], np.float32))),
    (np.int32(2), (np.int8(1), np.int8(5), np.int8(9))),
])
def test_selections(which, cases):
    got = exact.evaluate(OPS["select_n"], (which, *cases), {})
    assert bits(got) == bits(OPS["select_n"](which, *cases))


def test_what_numpy_computes_is_compiled_by_nobody(monkeypatch):
    monkeypatch.setattr(jax, "ensure_compile_time_eval", None)  # JAX cannot be asked
    assert exact.evaluate(OPS["add"], (np.int16(3), np.int16(4)), {}) == 7
    with pytest.raises(TypeError):
        exact.evaluate(OPS["sin"], (np.float32(3),), {})
    with pytest.raises(TypeError):
        exact.evaluate(OPS["mul"], (np.float32(1e-40), np.float32(3)), {})


def test_graphs_without_inputs(monkeypatch):
    def mask():
        at = jax.lax.broadcasted_iota(jnp.int32, (4, 4), 0)
        return jnp.where(at >= at.T, jnp.float32(2), jnp.float32(-1)) + jnp.sin(jnp.float32(0))

    graph = lower_function(mask)
    compiled = []
    monkeypatch.setattr(exact, "_by_numpy", lambda name, args, params, real=exact._by_numpy: (
        compiled.append(name) if (found := real(name, args, params)) is None else None, found)[1])
    assert bits(exact.evaluated(graph)[0]) == bits(mask())
    assert compiled == ["sin"]
