"""The kernel templates: what loops cannot express, as C++ headers of this folder and one row each.

A backend asks `TEMPLATES[name]`:

    applies(params, dtypes)                     does the template take these? (else: XLA at the seam)
    call(params, dtypes, operands, results, expr)   the C++ statement that runs it
    workspace(params, dtypes)                   bytes of scratch in the arena (0: threads keep their own)
    reference(params, *arrays)                  the same in NumPy, for tests and interpreters

`params` holds ints, SymPy sizes and strings as each row's `doc` says; strides are in elements.
`dtypes` are those of the operands, then of the results. `operands` and `results` are C++ pointer
expressions of any pointer type; `expr` prints an int or a SymPy expression as a C++ `int64_t`. The
statement expects `const dynacomp_runtime* rt` in scope and ends with a semicolon.

    >>> row = TEMPLATES["matmul"]
    >>> f32 = np.dtype(np.float32)
    >>> row.applies(dict(batch=1, m=2, n=3, k=4, a_strides=(8, 4, 1), b_strides=(12, 3, 1)), (f32,) * 3)
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Params = Mapping[str, Any]
Dtypes = Sequence[np.dtype]

HEADERS = Path(__file__).parent
"""The folder to give to the C++ compiler with -I."""


@dataclass(frozen=True)
class Template:
    """One kernel template; the module's docstring explains the fields."""

    name: str
    header: str
    doc: str
    applies: Callable[[Params, Dtypes], bool]
    call: Callable[[Params, Dtypes, Sequence[str], Sequence[str], Callable[[Any], str]], str]
    reference: Callable[..., tuple[np.ndarray, ...]]
    workspace: Callable[[Params, Dtypes], Any] = lambda params, dtypes: 0


# How the headers name an element in memory, by dtype name.
STORAGE = {
    "float32": "float", "float64": "double", "bfloat16": "dynacomp::tile::bfloat16",
    "float16": "dynacomp::tile::float16", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip


def sum_type(dtypes: Dtypes) -> str:
    """The C++ type in which products of these operands add up: floats at least float, integers
    unsigned (they wrap) and as wide as the result."""
    widest = max(dtypes, key=lambda d: d.itemsize)
    if all(d.kind in "iu" for d in dtypes):
        return "uint64_t" if widest.itemsize == 8 else "uint32_t"
    return "double" if widest.itemsize == 8 else "float"


def wide(array: np.ndarray) -> np.ndarray:
    """The array in the type that references compute in: float64, or its own integers."""
    return array if array.dtype.kind in "iu" else array.astype(np.float64)


def pointers(dtypes: Dtypes, operands: Sequence[str], results: Sequence[str]) -> list[str]:
    """The pointer expressions, cast to what the headers call their elements."""
    consts = ["const "] * len(operands) + [""] * len(results)
    return [f"({c}{STORAGE[d.name]}*)({p})" for c, d, p in zip(consts, dtypes, [*operands, *results], strict=True)]


def same_kind(params: Params, dtypes: Dtypes) -> bool:
    """All floats or all integers that the headers know."""
    floats = {d.kind not in "iu" for d in dtypes}
    return all(d.name in STORAGE for d in dtypes) and len(floats) == 1


# matmul ---------------------------------------------------------------------------------------


def matmul_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    a, b, out = pointers(dtypes, operands, results)
    sizes = ", ".join(expr(params[s]) for s in ("batch", "m", "n", "k"))
    strides = [", ".join(map(expr, params[s])) for s in ("a_strides", "b_strides")]
    return f"dynacomp::matmul<{sum_type(dtypes)}>(rt, {sizes}, {a}, {strides[0]}, {b}, {strides[1]}, {out});"


def matmul_reference(params: Params, a: np.ndarray, b: np.ndarray, dtype: Any = None) -> tuple[np.ndarray, ...]:
    batch, m, n, k = (int(params[s]) for s in ("batch", "m", "n", "k"))
    left = strided(a, (batch, m, k), params["a_strides"])
    right = strided(b, (batch, k, n), params["b_strides"])
    dtype = np.dtype(dtype or np.result_type(a, b))
    if dtype.kind in "iu":
        left, right = left.astype(dtype), right.astype(dtype)
    return (np.matmul(wide(left), wide(right)).astype(dtype),)


def strided(array: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """A view of the flat array's elements with `shape` and element `strides`."""
    flat = array.reshape(-1)
    if 0 in shape:
        return np.zeros(tuple(map(int, shape)), array.dtype)
    offsets = tuple(int(s) * flat.itemsize for s in strides)
    return np.lib.stride_tricks.as_strided(flat, tuple(map(int, shape)), offsets)


MATMUL = Template(
    name="matmul",
    header="gemm.h",
    doc="""(a, b) -> out[batch, m, n], contiguous: out[e, i, j] = sum of a[e, i, p] * b[e, p, j] over p < k.
    params: batch, m, n, k; a_strides = (batch, m, k); b_strides = (batch, k, n); any strides, also 0.
    Floats (f32, f64, bf16, f16; narrow ones add up in f32) or integers (they wrap), in any mixture of one kind.""",
    applies=same_kind,
    call=matmul_call,
    reference=matmul_reference,
)

# conv -----------------------------------------------------------------------------------------

SPATIAL = ("spatial_in", "kernel", "spatial_out", "stride", "pad_lo", "lhs_dilation", "rhs_dilation")


def in_3d(params: Params) -> dict[str, list]:
    """The params with exactly three spatial dimensions: leading ones of size 1 are put in."""
    extra = 3 - len(params["stride"])
    ones = {name: [0 if name == "pad_lo" else 1] * extra + list(params[name]) for name in SPATIAL}
    strides = {s: [*params[s][:2], *[0] * extra, *params[s][2:]] for s in ("lhs_strides", "rhs_strides", "out_strides")}
    return ones | strides


def conv_applies(params: Params, dtypes: Dtypes) -> bool:
    return len(params["stride"]) <= 3 and same_kind(params, dtypes)


def conv_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    full = in_3d(params)
    row = lambda name: "{" + ", ".join(map(expr, full[name])) + "}"
    fields = [expr(params[s]) for s in "nck"] + [row(s) for s in SPATIAL]
    fields += [expr(params["groups"]), expr(params["batch_groups"])]
    fields += [row(s) for s in ("lhs_strides", "rhs_strides", "out_strides")]
    lhs, rhs, out = pointers(dtypes, operands, results)
    return f"dynacomp::convolution<{sum_type(dtypes)}>(rt, dynacomp::Conv{{{', '.join(fields)}}}, {lhs}, {rhs}, {out});"


def conv_reference(params: Params, lhs: np.ndarray, rhs: np.ndarray, dtype: Any = None) -> tuple[np.ndarray, ...]:
    """Tap by tap; `out` comes flat, of the size that out_strides span."""
    n, c, k, groups, batch_groups = (int(params[s]) for s in ("n", "c", "k", "groups", "batch_groups"))
    p = {name: [int(x) for x in values] for name, values in in_3d(params).items()}
    dtype = np.dtype(dtype or np.result_type(lhs, rhs))
    images, features = n // batch_groups, k // (groups * batch_groups)
    x = wide(strided(lhs, (n, c, *p["spatial_in"]), p["lhs_strides"]).astype(dtype, copy=False))
    w = wide(strided(rhs, (k, c // groups, *p["kernel"]), p["rhs_strides"]).astype(dtype, copy=False))
    x = x.reshape(batch_groups, images, groups, c // groups, *p["spatial_in"])
    w = w.reshape(batch_groups, groups, features, c // groups, *p["kernel"])
    sums = np.zeros((images, batch_groups, groups, features, *p["spatial_out"]), x.dtype)
    for tap in np.ndindex(*p["kernel"]) if x.size and w.size else ():
        index, valid = zip(*(tap_reads(p, d, t) for d, t in enumerate(tap)))
        patch = x[..., index[0], :, :][..., index[1], :][..., index[2]] * np.einsum("i,j,k->ijk", *valid).astype(x.dtype)
        sums += np.einsum("bngcxyz,bgkc->nbgkxyz", patch, w[..., tap[0], tap[1], tap[2]])
    shape = (images, k, *p["spatial_out"])
    flat = np.zeros(1 + sum(max(0, s - 1) * t for s, t in zip(shape, p["out_strides"])) if sums.size else 0, dtype)
    if sums.size:
        strided(flat, shape, p["out_strides"])[...] = sums.reshape(shape).astype(dtype)
    return (flat,)


def tap_reads(p: Mapping[str, list], d: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Which lhs index tap `t` reads at each output of dimension `d`, and whether there is one."""
    at = np.arange(p["spatial_out"][d]) * p["stride"][d] + t * p["rhs_dilation"][d] - p["pad_lo"][d]
    index = at // p["lhs_dilation"][d]
    valid = (at % p["lhs_dilation"][d] == 0) & (index >= 0) & (index < p["spatial_in"][d])
    return np.where(valid, index, 0), valid


CONV = Template(
    name="conv",
    header="conv.h",
    doc="""(lhs, rhs) -> out, as lax.conv_general_dilated. params: n, c: images and channels of lhs; k: features
    of out; spatial_in, kernel, spatial_out, stride, pad_lo, pad_hi (unused), lhs_dilation, rhs_dilation: one per
    spatial dimension (at most 3); groups, batch_groups; lhs_strides of (n, c, *spatial), rhs_strides of
    (k, c / groups, *kernel), out_strides of (n / batch_groups, k, *spatial): any, in elements. pad_lo may be
    negative. Dtypes as matmul.""",
    applies=conv_applies,
    call=conv_call,
    reference=conv_reference,
)

TEMPLATES: dict[str, Template] = {row.name: row for row in (MATMUL, CONV)}
