"""The kernel templates: what loops cannot express, as C++ headers of this folder and one row each.

A backend asks `TEMPLATES[name]`:

    applies(params, dtypes)                     does the template take these? (else: XLA at the seam)
    call(params, dtypes, operands, results, expr)   the C++ statement that runs it
    instances(params, dtypes)                   the C++ units that define what the statement calls, after calls.h
                                                declared it; None: the statement needs the header (and `source`)
    reference(params, *arrays)                  the same in NumPy, for tests and interpreters

`params` holds ints, SymPy sizes and strings as each row's `doc` says; strides are in elements. Products
that the program asks to be precise have `precision`, a name for each operand: the templates here always are.
`dtypes` are those of the operands, then of the results. `operands` and `results` are C++ pointer
expressions of any pointer type; `expr` prints an int or a SymPy expression as a C++ `int64_t`. The
statement expects `const dynacomp_runtime* rt` in scope and ends with a semicolon.

    >>> row = TEMPLATES["matmul"]
    >>> f32 = np.dtype(np.float32)
    >>> row.applies(dict(batch=1, m=2, n=3, k=4, a_strides=(8, 4, 1), b_strides=(12, 3, 1)), (f32,) * 3)
    True
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from dynacomp.kernels import fourier, lapack, linalg

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
    instances: Callable[[Params, Dtypes], tuple[str, ...]] | None = None
    source: str = ""  # more C++ that the call needs, to stand after the header


# How the headers name an element in memory, by dtype name.
STORAGE = {
    "float32": "float",
    "float64": "double",
    "bfloat16": "dynacomp::tile::bfloat16",
    "float16": "dynacomp::tile::float16",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
}


def sum_type(dtypes: Dtypes) -> str:
    """The C++ type in which products of these operands add up: floats at least float, integers
    unsigned (they wrap) and as wide as the result."""
    widest = max(dtypes, key=lambda d: d.itemsize)
    if all(d.kind in "iu" for d in dtypes):
        return "uint64_t" if widest.itemsize == 8 else "uint32_t"
    return "double" if widest.itemsize == 8 else "float"


def product_type(dtypes: Dtypes) -> str:
    """The C++ type in which a matrix product multiplies: floats hold products of bytes exactly (see `gemm.h`)."""
    a, b, _ = dtypes
    return "float" if all(d.kind in "iu" for d in dtypes) and a.itemsize == b.itemsize == 1 else sum_type(dtypes)


def wide(array: np.ndarray) -> np.ndarray:
    """The array in the type that references compute in: float64, or its own integers."""
    return array if array.dtype.kind in "iu" else array.astype(np.float64)


def pointers(dtypes: Dtypes, operands: Sequence[str], results: Sequence[str]) -> list[str]:
    """The pointer expressions, cast to what the headers call their elements."""
    consts = ["const "] * len(operands) + [""] * len(results)
    return [f"({c}{STORAGE[d.name]}*)({p})" for c, d, p in zip(consts, dtypes, [*operands, *results], strict=True)]


def instance(header: str, function: str, *parameters: str, result: str = "void") -> str:
    """The unit of a template's header that holds its function for these types; none: the function is no template."""
    defined = f"template {result} dynacomp::{function}({', '.join(parameters)});\n" if parameters else ""
    return f'#include "{header}"\n{defined}'


RT, I64 = "const dynacomp_runtime*", "int64_t"


def same_kind(params: Params, dtypes: Dtypes) -> bool:
    """All floats or all integers that the headers know."""
    floats = {d.kind not in "iu" for d in dtypes}
    return all(d.name in STORAGE for d in dtypes) and len(floats) == 1


# matmul ---------------------------------------------------------------------------------------


def matmul_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    a, b, out = pointers(dtypes, operands, results)
    sizes = ", ".join(expr(params[s]) for s in ("batch", "m", "n", "k"))
    strides = [", ".join(map(expr, params[s])) for s in ("a_strides", "b_strides")]
    return f"dynacomp::matmul<{product_type(dtypes)}>(rt, {sizes}, {a}, {strides[0]}, {b}, {strides[1]}, {out});"


def matmul_instance(dtypes: Dtypes) -> str:
    a, b, out = (STORAGE[d.name] for d in dtypes)
    sizes = [RT, *[I64] * 4]
    return instance("gemm.h", f"matmul<{product_type(dtypes)}>", *sizes, f"const {a}*", *[I64] * 3, f"const {b}*",
                    *[I64] * 3, f"{out}*")


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
    instances=lambda params, dtypes: (matmul_instance(dtypes),),
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


def may(test: Callable[..., bool], *sizes: Any) -> bool:
    """Whether a test may hold of sizes, some of which are perhaps not known yet."""
    try:
        return test(*map(int, sizes))
    except TypeError:
        return True


MOST_NARROW = 8  # features: half the lanes of the longest register


def may_be_narrow(params: Params, full: Mapping[str, list]) -> bool:
    """See `is_narrow` in narrow.h."""
    return may(lambda k, groups, lhs: k <= MOST_NARROW and groups == lhs == 1,
               params["k"], params["groups"], full["lhs_strides"][1])


def may_be_by_lines(params: Params, full: Mapping[str, list]) -> bool:
    """See `is_by_lines` in lines.h."""
    return may(lambda *ones: set(ones) == {1}, params["groups"], full["out_strides"][1], *full["lhs_dilation"]) and may(
        lambda c, lhs: 1 in (c, lhs), params["c"], full["lhs_strides"][1])


def may_be_depthwise(params: Params, full: Mapping[str, list]) -> bool:
    """See `depthwise` in depthwise.h."""
    return may(lambda k, groups, batch_groups: k <= 4 * groups * batch_groups,
               *(params[s] for s in ("k", "groups", "batch_groups")))


def may_be_outer(params: Params, full: Mapping[str, list]) -> bool:
    """See `outer_products` in outer.h."""
    return may(lambda lhs, rhs, out: lhs == rhs == out == 1,
               full["lhs_strides"][0], full["rhs_strides"][0], full["out_strides"][1])


# The ways that come before the general one of conv.h, in order: the function, its header, whether all its arrays are of
# the type of the sums, and when it may fit. Each is a unit of its own: a program compiles those that it may need.
CONV_WAYS = (
    ("narrow_features", "narrow.h", True, may_be_narrow),
    ("line_convolution", "lines.h", True, may_be_by_lines),
    ("depthwise", "depthwise.h", False, may_be_depthwise),
    ("outer_products", "outer.h", True, may_be_outer),
)


def conv_ways(params: Params, dtypes: Dtypes) -> list[tuple[str, str]]:
    """The special ways that may fit: functions with their headers."""
    same, full = {STORAGE[d.name] for d in dtypes} == {sum_type(dtypes)}, in_3d(params)
    return [(name, header) for name, header, of_sums, fits in CONV_WAYS if (same or not of_sums) and fits(params, full)]


def conv_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    full = in_3d(params)
    row = lambda name: "{" + ", ".join(map(expr, full[name])) + "}"
    fields = [expr(params[s]) for s in "nck"] + [row(s) for s in SPATIAL]
    fields += [expr(params["groups"]), expr(params["batch_groups"])]
    fields += [row(s) for s in ("lhs_strides", "rhs_strides", "out_strides")]
    given = f"<{sum_type(dtypes)}>(rt, conv, {', '.join(pointers(dtypes, operands, results))})"
    tried = "".join(f" && !dynacomp::tile::{name}{given}" for name, _ in conv_ways(params, dtypes))
    return (f"{{ const dynacomp::Conv conv{{{', '.join(fields)}}}; "
            f"if (!conv.is_empty(){tried}) dynacomp::convolution{given}; }}")


def conv_instances(params: Params, dtypes: Dtypes) -> tuple[str, ...]:
    lhs, rhs, out = (STORAGE[d.name] for d in dtypes)
    types = RT, "const dynacomp::Conv&", f"const {lhs}*", f"const {rhs}*", f"{out}*"
    ways = [(f"tile::{name}", header, "bool") for name, header in conv_ways(params, dtypes)]
    return tuple(instance(header, f"{name}<{sum_type(dtypes)}>", *types, result=result)
                 for name, header, result in (("convolution", "conv.h", "void"), *ways))


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
        patch = x[..., index[0], :, :][..., index[1], :][..., index[2]] * np.einsum("i,j,k->ijk", *valid).astype(
            x.dtype
        )
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
    instances=conv_instances,
    reference=conv_reference,
)

# sort, top_k ----------------------------------------------------------------------------------

MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
KINDS = {"b": "unsigned_int", "u": "unsigned_int", "i": "signed_int"}


def is_key(dtype: np.dtype) -> bool:
    return dtype.name in MANTISSA or (dtype.kind in KINDS and dtype.itemsize <= 8)


def sort_operand(dtype: np.dtype, source: str, result: str) -> str:
    """A C++ SortOperand; a payload that cannot be a key passes as unsigned."""
    kind = "floating" if dtype.name in MANTISSA else KINDS.get(dtype.kind, "unsigned_int")
    mantissa = MANTISSA.get(dtype.name, 0)
    return f"{{{source}, {result}, {dtype.itemsize}, dynacomp::KeyKind::{kind}, {mantissa}}}"


def sort_applies(params: Params, dtypes: Dtypes) -> bool:
    sizes_known = all(d.itemsize in (1, 2, 4, 8, 16) for d in dtypes)
    return sizes_known and all(map(is_key, dtypes[: params["num_keys"]]))


def product(sizes: Sequence[Any]) -> Any:
    return reduce(operator.mul, sizes, 1)


def sort_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    shape, d = params["shapes"][0], params["dimension"]
    sizes = ", ".join(map(expr, (product(shape[:d]), shape[d], product(shape[d + 1 :]))))
    rows = ", ".join(map(sort_operand, dtypes, operands, results))
    count = f"{len(operands)}, {params['num_keys']}"
    return f"{{ const dynacomp::SortOperand all[] = {{{rows}}}; dynacomp::sort(rt, {sizes}, all, {count}); }}"


def sort_key(x: np.ndarray) -> np.ndarray:
    """Values whose order is lax.sort's: NumPy sorts NaN last already, and -0 as 0; subnormals become 0."""
    if x.dtype.name not in MANTISSA:
        return x
    flushed = x.dtype.name != "float16"
    tiny = float(ml_dtypes.finfo(x.dtype).tiny) if flushed else 0.0
    return np.where(np.abs(x.astype(np.float64)) < tiny, 0.0, x.astype(np.float64))


def sort_reference(params: Params, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = params["dimension"]
    order = np.broadcast_to(
        np.expand_dims(np.arange(arrays[0].shape[axis]), tuple(d for d in range(arrays[0].ndim) if d != axis)),
        arrays[0].shape,
    )
    for key in reversed(arrays[: params["num_keys"]]):
        sorted_key = np.take_along_axis(sort_key(key), order, axis)
        order = np.take_along_axis(order, np.argsort(sorted_key, axis=axis, kind="stable"), axis)
    return tuple(np.take_along_axis(a, order, axis) for a in arrays)


SORT = Template(
    name="sort",
    header="sort.h",
    doc="""(operands...) -> the same, sorted along `dimension` by the first `num_keys` of them, as lax.sort: -0
    (and, but for f16, a subnormal) equals 0, NaNs are equal and last. Always stable (is_stable is not needed).
    params: dimension, num_keys,
    shapes (one per operand, all the same). Contiguous arrays; complex or exotic payloads, but not such keys.""",
    applies=sort_applies,
    call=sort_call,
    instances=lambda params, dtypes: (instance("sort.h", "sort"),),
    reference=sort_reference,
)


def top_k_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable) -> str:
    sizes = ", ".join(expr(params[s]) for s in ("rows", "n", "k"))
    operand = sort_operand(dtypes[0], operands[0], results[0])
    return f"dynacomp::top_k(rt, {sizes}, dynacomp::SortOperand{operand}, (int32_t*)({results[1]}));"


def top_k_reference(params: Params, x: np.ndarray) -> tuple[np.ndarray, ...]:
    rows, n, k = (int(params[s]) for s in ("rows", "n", "k"))
    flat = x.reshape(rows, n)
    key = flat.astype(np.float64)
    bits = key.view(np.int64)
    total = np.where(bits < 0, ~bits ^ np.int64(-(2**63)), bits) if x.dtype.name in MANTISSA else flat.astype(object)
    order = np.argsort(-total.astype(object), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(flat, order, 1), order.astype(np.int32)


TOP_K = Template(
    name="top_k",
    header="sort.h",
    doc="""x[rows, n] -> (values[rows, k], int32 indices[rows, k]): the k largest of each row, largest first, ties in
    order of index, as lax.top_k (IEEE's total order: NaN above inf, -0 below 0, -NaN below -inf).
    params: rows, n, k.""",
    applies=lambda params, dtypes: is_key(dtypes[0]) and dtypes[2] == np.int32,
    call=top_k_call,
    instances=lambda params, dtypes: (instance("sort.h", "top_k"),),
    reference=top_k_reference,
)

# attention ------------------------------------------------------------------------------------


def attention_applies(params: Params, dtypes: Dtypes) -> bool:
    same = {dtypes[0], dtypes[1], dtypes[2], dtypes[-1]}
    return len(same) == 1 and all(d.name in ("float32", "bfloat16", "float16") for d in dtypes)


def attention_call(
    params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable
) -> str:
    *inputs, out = pointers(dtypes, operands, results)
    inputs = inputs if len(inputs) == 4 else [*inputs, f"(const {STORAGE[dtypes[0].name]}*)nullptr"]
    sizes = [expr(params[s]) for s in ("batch", "heads", "group", "queries", "keys", "depth", "width")]
    names = ("q_strides", "k_strides", "v_strides", "out_strides", "bias_strides")
    strides = ["{" + ", ".join(map(expr, params.get(s, (0, 0, 0, 0, 0)))) + "}" for s in names]
    flags = [repr(float(params["scale"])), *("true" if params[s] else "false" for s in ("causal", "marks"))]
    flags.append("-__builtin_inf()" if params["fill"] == -np.inf else repr(float(params["fill"])))
    fields = ", ".join([*sizes, *strides, *flags])
    return f"dynacomp::attention(rt, dynacomp::Attention{{{fields}}}, {', '.join(inputs)}, {out});"


def attention_instance(dtypes: Dtypes) -> str:
    of, bias = STORAGE[dtypes[0].name], STORAGE[dtypes[3 if len(dtypes) == 5 else 0].name]
    return instance("attention.h", "attention", RT, "const dynacomp::Attention&", *[f"const {of}*"] * 3,
                    f"const {bias}*", f"{of}*")


def attention_reference(
    params: Params, q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    b, h, g, s, t, d, w = (int(params[x]) for x in ("batch", "heads", "group", "queries", "keys", "depth", "width"))
    view = lambda x, rows, columns, name: strided(x, (b, h, g, rows, columns), params[name]).astype(np.float64)
    scores = view(q, s, d, "q_strides") @ view(k, t, d, "k_strides").swapaxes(3, 4) * float(params["scale"])
    hidden = np.zeros((s, t), bool)
    if bias is not None:
        add = view(bias, s, t, "bias_strides")
        hidden = (add == -np.inf) & params["marks"]
        scores = scores + add
    if params["causal"]:
        hidden = hidden | ~np.tril(np.ones((s, t), bool))
    scores = np.where(hidden, params["fill"], scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
    result = weights / weights.sum(-1, keepdims=True) @ view(v, t, w, "v_strides")
    out = np.zeros(b * h * g * s * w, np.float64)
    strided(out, (b, h, g, s, w), params["out_strides"])[...] = result
    return (out,)


ATTENTION = Template(
    name="attention",
    header="attention.h",
    doc="""(q, k, v[, bias]) -> out = softmax(scale * q k^T + bias) v per batch and head, never holding the scores of
    more than 32 queries. params: batch, heads, group (heads of queries that share one of keys), queries, keys, depth
    (columns of q, k), width (of v, out); scale (a number); causal (query i sees keys <= i); marks (a bias of -inf marks
    what is hidden) and fill (a number, the score of what is hidden); q_strides, k_strides, v_strides, out_strides,
    bias_strides of (batch, head, of its group, row, column), any, in elements (0 broadcasts: shared key heads, a bias
    per key). out is dense in some order. q, k, v, out of one dtype, f32, bf16 or f16; the bias of any of them. A query
    that sees nothing but fills of -inf gives NaN. The reference's result is flat float64.""",
    applies=attention_applies,
    call=attention_call,
    instances=lambda params, dtypes: (attention_instance(dtypes),),
    reference=attention_reference,
)

# matrices ---------------------------------------------------------------------------------------

CHOLESKY = Template(
    name="cholesky",
    header="lapack.h",
    doc="""a[batch, n, n] -> the lower factor of each, above the diagonal a itself; NaN where a is not positive.
    params: batch, n. Floats or complex numbers; contiguous.""",
    applies=linalg.applies,
    call=linalg.cholesky_call,
    instances=lambda params, dtypes: (
        instance("lapack.h", "cholesky_any", RT, I64, I64, *linalg.pointers(dtypes, 1, 1)),),
    reference=linalg.cholesky_reference,
)
LU = Template(
    name="lu",
    header="lapack.h",
    doc="""a[batch, m, n] -> (both factors in one, int32 pivots from 0, int32 permutation[batch, m]), as LAPACK's getrf.
    params: batch, m, n.""",
    applies=linalg.applies,
    call=linalg.lu_call,
    instances=lambda params, dtypes: (
        instance("lapack.h", "lu_any", RT, *[I64] * 3, *linalg.pointers(dtypes, 1, 1), *["int32_t*"] * 2),),
    reference=linalg.lu_reference,
)
TRIANGULAR_SOLVE = Template(
    name="triangular_solve",
    header="lapack.h",
    doc="""(a[batch, k, k], b[batch, rows, columns]) -> x with op(a) x = b (`left`) or x op(a) = b. params: batch, rows,
    columns and the flags left, lower, transposed, conjugated, unit.""",
    applies=linalg.applies,
    call=linalg.triangular_call,
    instances=lambda params, dtypes: (
        instance("lapack.h", "triangular_solve_any", RT, *[I64] * 3, *["bool"] * 5, *linalg.pointers(dtypes, 2, 1)),),
    reference=linalg.triangular_reference,
)

QR = Template(
    name="geqrf",
    header="lapack.h",
    doc="""a[batch, m, n] -> (R with the reflectors below it, their scales), as LAPACK's geqrf. params: batch, m, n.""",
    applies=linalg.applies,
    call=lapack.call("qr_factor", "batch m n"),
    reference=lapack.qr_reference,
)
REFLECTORS = Template(
    name="householder_product",
    header="lapack.h",
    doc="""(a[batch, m, n], scales[batch, k]) -> the first n columns of the product of k reflectors, as LAPACK's orgqr.
    params: batch, m, n, k.""",
    applies=linalg.applies,
    call=lapack.call("reflectors", "batch m n k"),
    reference=lapack.reflectors_reference,
)
SVD = Template(
    name="svd",
    header="lapack.h",
    doc="""a[batch, m, n] -> singular values, largest first[, u, vt], as LAPACK's gesdd; NaN where it fails. params:
    batch, m, n; vectors: u and vt too; full: all of them.""",
    applies=linalg.applies,
    call=lapack.svd_call,
    reference=lapack.svd_reference,
)
EIGH = Template(
    name="eigh",
    header="lapack.h",
    doc="""a[batch, n, n], of which one half counts -> (eigenvectors, eigenvalues, smallest first), as LAPACK's syevd
    and heevd; NaN where they fail. params: batch, n, lower.""",
    applies=linalg.applies,
    call=lapack.call("symmetric", "batch n", "lower"),
    reference=lapack.eigh_reference,
)
EIG = Template(
    name="eig",
    header="lapack.h",
    doc="""a[batch, n, n] -> eigenvalues[, left][, right eigenvectors], complex, as LAPACK's geev; NaN where it fails or
    a is not finite. params: batch, n; left, right: which vectors.""",
    applies=linalg.applies,
    call=lapack.eig_call,
    reference=lapack.eig_reference,
)
TRIDIAGONAL_SOLVE = Template(
    name="tridiagonal_solve",
    header="lapack.h",
    doc="""(below, on, above the diagonal [batch, n], b[batch, n, columns]) -> x, as LAPACK's gtsv; NaN where it fails.
    params: batch, n, columns.""",
    applies=linalg.applies,
    call=lapack.call("tridiagonal", "batch n columns"),
    reference=lapack.tridiagonal_reference,
)

FFT = Template(
    name="fft",
    header="fft.h",
    doc="""x -> its Fourier transform over the trailing dimensions. params: batch; lengths: ints, of the real side;
    kind: "FFT", "IFFT", "RFFT" or "IRFFT". No prime factor of a length is larger than 61; contiguous.""",
    applies=fourier.applies,
    call=fourier.call,
    reference=fourier.reference,
)

_ROWS = (FFT, MATMUL, CONV, SORT, TOP_K, ATTENTION, CHOLESKY, LU, TRIANGULAR_SOLVE, QR, REFLECTORS, SVD, EIGH, EIG,
         TRIDIAGONAL_SOLVE)
TEMPLATES: dict[str, Template] = {row.name: row for row in _ROWS}
