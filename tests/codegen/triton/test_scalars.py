"""Every row of the scalar table, spelled in Triton: against its NumPy reference, and compiled for GPUs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.scalars import SPELLINGS
from dynacomp.lowering.kernel_ir.loops import Apply, Buffer, Kernel, Load, Loop, Store
from dynacomp.lowering.kernel_ir.scalars import BFLOAT16, SCALARS, convert, evaluate, kind
from dynacomp.lowering.sizes.symbols import size, symbol

from .triton_kit import TARGETS, compile_kernel, run_kernel

DTYPES = [
    np.dtype(n)
    for n in ("bool", "int8", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64")
] + [BFLOAT16]
N, I = size("n"), symbol("i")
MISSING = {("nextafter", "float16"), ("nextafter", "bfloat16")}


def values(dtype: np.dtype, seed: int) -> np.ndarray:
    """Random and special values of a dtype."""
    rng = np.random.default_rng(seed)
    if dtype == np.bool_:
        return rng.random(64) < 0.5
    if kind(dtype) in "iu":
        limits = np.iinfo(dtype)
        edge = np.array([0, 1, 2, 3, limits.max, limits.min, limits.max - 1, 7], dtype)
        small = rng.integers(0 if limits.min == 0 else -5, 70, 28).astype(dtype)
        wide = rng.integers(limits.min, limits.max, 28, dtype=dtype, endpoint=True)
        return rng.permutation(np.concatenate([edge, small, wide]))
    edge = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, 3.5, 1e-3])
    body = np.concatenate([rng.normal(size=26) * 3, rng.uniform(-1, 1, 26)])
    return rng.permutation(np.concatenate([edge, body])).astype(dtype)


def one_op_kernel(name: str, source: np.dtype, dtype: np.dtype) -> Kernel:
    """out[i] = name(x[i], ...): operands are x, y and, for select, the condition c."""
    row = SCALARS[name]
    operands = (("c", np.dtype(bool)),) if row.rule == "select" else ()
    operands += (("x", source), ("y", source))[: row.arity - len(operands)]
    call = Apply(name, tuple(Load(n, I, d) for n, d in operands), dtype)
    inputs = tuple(Buffer(n, (N,), d) for n, d in operands)
    return Kernel(
        "op",
        inputs,
        (Buffer("out", (N,), dtype),),
        (Loop(I, N, (Store("out", I, call),), parallel=True, vector=True),),
        (N,),
    )


def result_dtype(name: str, source: np.dtype) -> np.dtype:
    return np.dtype(bool) if SCALARS[name].rule == "bool" else source


CASES = [
    (name, dtype)
    for name, row in SCALARS.items()
    if row.rule != "free"
    for dtype in DTYPES
    if kind(dtype) in row.kinds and (name, dtype.name) not in MISSING
]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: getattr(v, "name", v))
def test_scalar_is_its_reference(name: str, dtype: np.dtype) -> None:
    kernel = one_op_kernel(name, dtype, result_dtype(name, dtype))
    arrays = {b.name: values(b.dtype, 7 + i) for i, b in enumerate(kernel.inputs)}
    wanted = evaluate(name, tuple(arrays.values()), kernel.outputs[0].dtype)
    arrays["out"] = np.zeros(64, wanted.dtype)
    run_kernel(kernel, arrays, {"n": 64})
    # digamma cancels next to its roots, and the reference is no better than 1e-14
    same_within_ulps(arrays["out"], wanted, 512 if name == "digamma" and dtype == np.float64 else 4)


def same_within_ulps(found: np.ndarray, wanted: np.ndarray, ulps: int = 4) -> None:
    """Equal, bit for bit where not finite, floats within some units in the last place."""
    if kind(wanted.dtype) != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    size_of = {2: np.float32, 4: np.float32, 8: np.float64}[wanted.dtype.itemsize]
    a, b = found.astype(size_of), wanted.astype(size_of)
    np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
    np.testing.assert_array_equal(a[~np.isfinite(b)], b[~np.isfinite(b)])
    unit = {2: 2.0 ** (-7 if wanted.dtype == BFLOAT16 else -10), 4: 2.0**-23, 8: 2.0**-52}
    np.testing.assert_allclose(a, b, rtol=ulps * unit[wanted.dtype.itemsize], atol=1e-30)


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversion(source: np.dtype, dtype: np.dtype) -> None:
    kernel = one_op_kernel("convert", source, dtype)
    x = values(source, 3)
    arrays = {"x": x, "out": np.zeros(64, dtype)}
    run_kernel(kernel, arrays, {"n": 64})
    with np.errstate(all="ignore"):
        found, wanted = arrays["out"], convert(x, dtype)
    if dtype == BFLOAT16:  # NumPy does not know that its NaN are equal
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ("float32", "int32"),
        ("uint32", "float32"),
        ("float64", "int64"),
        ("bfloat16", "uint16"),
        ("int16", "float16"),
        ("int32", "uint32"),
    ],
)
def test_bitcast(source: str, dtype: str) -> None:
    x = values(np.dtype(source), 5)
    kernel = one_op_kernel("bitcast", x.dtype, np.dtype(dtype))
    arrays = {"x": x, "out": np.zeros(64, dtype)}
    run_kernel(kernel, arrays, {"n": 64})
    nan = np.isnan(x.astype(np.float64)) if kind(x.dtype) == "f" else np.zeros(64, bool)
    np.testing.assert_array_equal(arrays["out"][~nan].view(x.dtype), x[~nan])


def test_every_scalar_is_spelled() -> None:
    assert set(SPELLINGS) | {"convert", "bitcast"} == set(SCALARS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int32", "uint64", "bfloat16", "float32", "float64", "bool"])
def test_every_scalar_compiles(dtype: str, target: str) -> None:
    """One kernel with every row that takes the dtype."""
    source = np.dtype(dtype)
    names = [n for n, d in CASES if d == source] + ["convert"]
    kernels = {
        n: one_op_kernel(n, source, result_dtype(n, source) if n != "convert" else np.dtype("int8"))
        for n in names
    }
    outputs = {n: Buffer(f"o_{n}", (N,), k.outputs[0].dtype) for n, k in kernels.items()}
    stores = tuple(Store(f"o_{n}", I, k.body[0].body[0].value) for n, k in kernels.items())
    inputs = {b.name: b for k in kernels.values() for b in k.inputs}
    kernel = Kernel(
        "ops",
        tuple(inputs.values()),
        tuple(outputs.values()),
        (Loop(I, N, stores, parallel=True, vector=True),),
        (N,),
    )
    (binary,) = compile_kernel(kernel, target)
    assert len(binary.asm["hsaco" if target.startswith("gfx") else "cubin"]) > 1000
