"""How ops that want a hand-written kernel become TemplateSteps: one row of `TEMPLATE_RULES` each.

Templates read their operands by element strides, so that transposes, reshapes and broadcasts around
them cost nothing. A rule names, for each operand, the groups of dimensions that must each have one
stride; where an operand's layout does not give that, it is copied first.

    matmul  a `dot_general` as out[batch, m, n] = a[batch, m, k] b[batch, k, n]
    conv    a `conv_general_dilated`, every dimension on its own
    sort    a `sort` of contiguous arrays
    the names in MATRICES   factors, decompositions and solves of contiguous matrices, floats or complex
    top_k   a `top_k` along the last dimension of a contiguous array
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Node, is_node
from dynacomp.lowering.kernel_ir.loops import Apply, Expr, Load
from dynacomp.lowering.kernel_ir.scalars import kind
from dynacomp.lowering.primitives.ops import is_call
from dynacomp.lowering.rules.reader import Reader, dtype_of, shape_of
from dynacomp.lowering.sizes.indexing import ZERO, coefficient, product, strides, total

Groups = tuple[tuple[int, ...], ...]
Strides = tuple[sympy.Expr, ...]
SMALL_PRODUCT = 4096
"""Products of fewer multiplications than this stay loops, so that they fuse."""
DEEP_PRODUCT, DEEP_SIDE = 2048, 8
"""Of so many multiplications and rows and columns, those whose lanes would be folded away do not stay loops."""
LARGE_MATRIX = 1 << 14
"""Elements of a matrix whose product with a vector reads it by rows."""


@dataclass(frozen=True)
class View:
    """A strided reading of a buffer: element strides for each dimension of a node."""

    buffer: str
    strides: tuple[sympy.Expr, ...]


def widens_half(source: np.dtype, to: np.dtype) -> bool:
    """Whether a conversion makes float32 of floats of 16 bits, which products read as they lie."""
    return kind(to) == kind(source) == "f" and (source.itemsize, to.itemsize) == (2, 4)


def is_widening(node: Any) -> bool:
    """Whether a node is such a conversion."""
    return is_call(node, "convert_element_type") and widens_half(dtype_of(node.args[0]), dtype_of(node))


def view_of(reader: Reader, node: Node, widens: bool = False) -> View | None:
    """The node as a strided view of one realised buffer that starts at its first element, or None. widens: the buffer
    may hold floats of 16 bits, of which the node is the conversion to float32."""
    shape = shape_of(node)
    at = reader.point(shape)
    expr: Expr = reader.read(node, at)
    match expr:
        case Load(mask=None) as load if load.dtype == dtype_of(node):
            pass
        case Apply("convert", (Load(mask=None) as load,), dtype) if widens and widens_half(load.dtype, dtype):
            pass
        case _:
            return None
    steps = [ZERO if v == 0 else coefficient(load.index, v) for v in at]
    if any(s is None for s in steps):
        return None
    rest = load.index - sympy.Add(*(s * v for s, v in zip(steps, at)))
    return View(load.buffer, tuple(steps)) if sympy.expand(rest) == 0 else None


def row_major(node: Node) -> View:
    """The node in its own buffer."""
    return View(node.name, strides(shape_of(node)))


def merged(dims: Sequence[int], shape: Sequence[sympy.Expr], steps: Sequence[sympy.Expr]) -> sympy.Expr | None:
    """One stride that walks several dimensions in order, or None."""
    solid = [d for d in dims if shape[d] != 1]
    for outer, inner in zip(solid, solid[1:]):
        if sympy.expand(steps[outer] - steps[inner] * shape[inner]) != 0:
            return None
    return steps[solid[-1]] if solid else ZERO


@dataclass(frozen=True)
class Dot:
    """A dot_general's dimensions: batch, contracted and free ones of each side, in result order."""

    left: Node
    right: Node
    left_dims: Groups  # batch, free, contracted
    right_dims: Groups  # batch, contracted, free


def dot_of(node: Node) -> Dot:
    """The dimensions of a dot_general node."""
    left, right = node.args
    (left_in, right_in), (left_batch, right_batch) = node.kwargs["dimension_numbers"]
    left_free = tuple(d for d in range(len(shape_of(left))) if d not in (*left_in, *left_batch))
    right_free = tuple(d for d in range(len(shape_of(right))) if d not in (*right_in, *right_batch))
    return Dot(
        left, right, (tuple(left_batch), left_free, tuple(left_in)), (tuple(right_batch), tuple(right_in), right_free)
    )


def fitting_strides(rule: TemplateRule, node: Node, view: View, dims: Groups) -> Strides | None:
    """The strides that a template gets for an operand, or None where it must be copied."""
    if not rule.contiguous:
        return group_strides(node, view, dims)
    pairs = zip(view.strides, strides(shape_of(node)), shape_of(node))
    return view.strides if all(n == 1 or sympy.expand(s - t) == 0 for s, t, n in pairs) else None


def group_strides(node: Node, view: View, dims: Groups) -> Strides | None:
    """One stride for each group of an operand's dimensions, or None where some group has none."""
    found = [merged(d, shape_of(node), view.strides) for d in dims]
    return None if any(s is None for s in found) else tuple(found)


def is_small_dot(node: Node) -> bool:
    """Cheaper as a fused fold than as a template: few multiplications, or a matrix and a vector. A large matrix in
    memory whose rows add up goes through the template, which takes four rows at once."""
    dot = dot_of(node)
    left, right = shape_of(dot.left), shape_of(dot.right)
    batch, m, k = (total(left[d] for d in dims) for dims in dot.left_dims)
    n = total(right[d] for d in dot.right_dims[2])
    work = batch * m * n * k
    if work <= SMALL_PRODUCT or min(m, n) != 1 or batch * m * n < 1:
        return work <= SMALL_PRODUCT and not (work >= DEEP_PRODUCT and min(m, n) >= DEEP_SIDE and _is_deep(dot))
    matrix, free = (dot.right, dot.right_dims[2]) if m == 1 else (dot.left, dot.left_dims[1])
    return work < LARGE_MATRIX * batch or not _lies_along(matrix, free)


def _is_deep(dot: Dot) -> bool:
    """Do both operands lie along the dimensions that are folded away? Loops would fold a register for every result."""
    sides = (_untransposed(dot.left, dot.left_dims[2]), _untransposed(dot.right, dot.right_dims[1]))
    return all(len(shape_of(node)) - 1 in dims for node, dims in sides)


def _untransposed(node: Any, dims: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """What a node transposes or widens, and which of its dimensions are `dims` of the node."""
    while is_call(node, "transpose") or is_widening(node):
        dims = [node.kwargs["permutation"][d] for d in dims] if is_call(node, "transpose") else dims
        node = node.args[0]
    return node, dims


def _lies_along(node: Any, dims: Sequence[int]) -> bool:
    """Is a node an input, maybe transposed or as another shape, whose neighbours in memory differ in one of `dims`?"""
    node, dims = _untransposed(node, dims)
    fits = len(shape_of(node)) - 1 in dims
    while is_call(node, "reshape") or is_widening(node):
        node = node.args[0]
    return fits and is_node(node) and node.op in (PLACEHOLDER, GET_ATTR)


def _matmul_operands(node: Node) -> tuple[tuple[Node, Groups], ...]:
    dot = dot_of(node)
    return (dot.left, dot.left_dims), (dot.right, dot.right_dims)


def _matmul_params(node: Node, a: Strides, b: Strides) -> dict[str, Any]:
    dot = dot_of(node)
    left, right = shape_of(dot.left), shape_of(dot.right)
    batch, m, k = (product(tuple(left[d] for d in dims)) for dims in dot.left_dims)
    n = product(tuple(right[d] for d in dot.right_dims[2]))
    return {"batch": batch, "m": m, "n": n, "k": k, "a_strides": a, "b_strides": b, **_precision(node)}


def _precision(node: Node) -> dict[str, Any]:
    """The precision of each operand that a product is asked for, by name: a matter of GPUs and TPUs."""
    asked = node.kwargs.get("precision")
    return {"precision": tuple(p.name for p in asked)} if isinstance(asked, tuple) else {}


def _conv_operands(node: Node) -> tuple[tuple[Node, Groups], ...]:
    dims = node.kwargs["dimension_numbers"]
    lhs, rhs = node.args
    return (lhs, tuple((d,) for d in dims.lhs_spec)), (rhs, tuple((d,) for d in dims.rhs_spec))


def _conv_params(node: Node, lhs: Strides, rhs: Strides) -> dict[str, Any]:
    p, dims = node.kwargs, node.kwargs["dimension_numbers"]
    x, w, out = (shape_of(v) for v in (*node.args, node))
    steps = strides(out)
    return {
        "n": x[dims.lhs_spec[0]],
        "c": x[dims.lhs_spec[1]],
        "k": w[dims.rhs_spec[0]],
        "spatial_in": tuple(x[d] for d in dims.lhs_spec[2:]),
        "kernel": tuple(w[d] for d in dims.rhs_spec[2:]),
        "spatial_out": tuple(out[d] for d in dims.out_spec[2:]),
        "stride": tuple(p["window_strides"]),
        "pad_lo": tuple(low for low, _ in p["padding"]),
        "pad_hi": tuple(high for _, high in p["padding"]),
        "lhs_dilation": tuple(p["lhs_dilation"]),
        "rhs_dilation": tuple(p["rhs_dilation"]),
        "groups": p["feature_group_count"],
        "batch_groups": p["batch_group_count"],
        "lhs_strides": lhs,
        "rhs_strides": rhs,
        "out_strides": tuple(steps[d] for d in dims.out_spec),
        **_precision(node),
    }


def contiguous_operands(node: Node) -> tuple[tuple[Node, Groups], ...]:
    return tuple((x, tuple((d,) for d in range(len(shape_of(x))))) for x in node.args)


def _sort_params(node: Node, *_: Strides) -> dict[str, Any]:
    p = node.kwargs
    return {
        "dimension": p["dimension"],
        "num_keys": p["num_keys"],
        "is_stable": p["is_stable"],
        "shapes": tuple(shape_of(x) for x in node.args),
    }


def _top_k_params(node: Node, *_: Strides) -> dict[str, Any]:
    *rows, n = shape_of(node.args[0])
    return {"rows": product(tuple(rows)), "n": n, "k": sympy.sympify(node.kwargs["k"])}


def _attention_operands(node: Node) -> tuple[tuple[Node, Groups], ...]:
    return tuple((x, tuple((d,) for d in range(len(shape_of(x))))) for x in node.args)


def _attention_params(node: Node, q: Strides, k: Strides, v: Strides, *bias: Strides) -> dict[str, Any]:
    (batch, heads, group, queries, depth), (_, _, keys, width) = shape_of(node.args[0]), shape_of(node.args[2])
    out = strides((batch, heads, group, queries, width))
    return {"batch": batch, "heads": heads, "group": group, "queries": queries, "keys": keys, "depth": depth,
            "width": width, "q_strides": q, "k_strides": (*k[:2], 0, *k[2:]), "v_strides": (*v[:2], 0, *v[2:]),
            "out_strides": out,
            **{name: node.kwargs[name] for name in ("scale", "causal", "marks", "fill")},
            **({"bias_strides": bias[0]} if bias else {}), **_precision(node)}


def why_not_top_k(node: Node) -> str | None:
    """Why a top_k has no template, or None."""
    last = len(shape_of(node.args[0])) - 1
    return None if node.kwargs.get("axis", last) in (last, -1) else "top_k along a leading dimension"


@dataclass(frozen=True)
class TemplateRule:
    """How one op becomes a TemplateStep. wants: should this node (else it stays loops); operands: the
    operands and their groups of dimensions; params: the template's, from the node and the strides;
    contiguous: operands must be row-major; widens: floats of 16 bits may stand for their conversions to float32."""

    template: str
    wants: Callable[[Node], bool]
    operands: Callable[[Node], tuple[tuple[Node, Groups], ...]]
    params: Callable[..., dict[str, Any]]
    contiguous: bool = False
    widens: bool = False


def why_not_matrix(node: Node) -> str | None:
    """Why a factorisation, a decomposition or a solve has no template, or None."""
    dtype, name = dtype_of(node.args[0]), node.target.name
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        return f"{name} on {dtype}"
    asked = [k for k in ("subset_by_index", "algorithm", "implementation") if node.kwargs.get(k) is not None]
    if asked:
        return f"{name} with {asked[0]}={node.kwargs[asked[0]]}"
    return f"{name} that perturbs singular matrices" if node.kwargs.get("perturb_singular") else None


def _matrices(node: Node) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """How many matrices the last operand holds, and their sizes."""
    return _sizes(node.args[-1])


def _sizes(x: Node) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    *batch, rows, columns = shape_of(x)
    return product(tuple(batch)), rows, columns


LARGEST_PRIME = 61


def why_not_fft(node: Node) -> str | None:
    """Why a Fourier transform has no template, or None."""
    lengths = node.kwargs["fft_lengths"]
    if not all(isinstance(n, (int, sympy.Integer)) and n > 0 for n in lengths):
        return "a Fourier transform of a length that changes"
    primes = {p for n in lengths for p in sympy.primefactors(int(n))}
    return f"a Fourier transform of {max(primes)} times so many" if max(primes, default=1) > LARGEST_PRIME else None


def _fft_params(node: Node, *_: Strides) -> dict[str, Any]:
    lengths = tuple(map(int, node.kwargs["fft_lengths"]))
    batch = shape_of(node.args[0])[: -len(lengths)]
    return {"batch": product(tuple(batch)), "lengths": lengths, "kind": node.kwargs["fft_type"].name}


def _cholesky_params(node: Node, *_: Strides) -> dict[str, Any]:
    batch, n, _columns = _matrices(node)
    return {"batch": batch, "n": n}


def _lu_params(node: Node, *_: Strides) -> dict[str, Any]:
    return dict(zip(("batch", "m", "n"), _matrices(node)))


def _triangular_params(node: Node, *_: Strides) -> dict[str, Any]:
    p = node.kwargs
    flags = {"left": p["left_side"], "lower": p["lower"], "transposed": p["transpose_a"],
             "conjugated": p["conjugate_a"], "unit": p["unit_diagonal"]}
    return dict(zip(("batch", "rows", "columns"), _matrices(node))) | flags


def _reflector_params(node: Node, *_: Strides) -> dict[str, Any]:
    return dict(zip(("batch", "m", "n"), _sizes(node.args[0]))) | {"k": shape_of(node.args[1])[-1]}


def _svd_params(node: Node, *_: Strides) -> dict[str, Any]:
    return _lu_params(node) | {"vectors": node.kwargs["compute_uv"], "full": node.kwargs["full_matrices"]}


def _eigh_params(node: Node, *_: Strides) -> dict[str, Any]:
    return _cholesky_params(node) | {"lower": node.kwargs["lower"]}


def _eig_params(node: Node, *_: Strides) -> dict[str, Any]:
    sides = {side: node.kwargs[f"compute_{side}_eigenvectors"] for side in ("left", "right")}
    return _cholesky_params(node) | sides


def _tridiagonal_params(node: Node, *_: Strides) -> dict[str, Any]:
    return dict(zip(("batch", "n", "columns"), _matrices(node)))


def _matrix_rule(name: str, params: Callable[..., dict[str, Any]]) -> TemplateRule:
    return TemplateRule(name, lambda n: True, contiguous_operands, params, contiguous=True)


MATRICES = {
    "cholesky": _cholesky_params, "lu": _lu_params, "triangular_solve": _triangular_params, "geqrf": _lu_params,
    "householder_product": _reflector_params, "svd": _svd_params, "eigh": _eigh_params, "eig": _eig_params,
    "tridiagonal_solve": _tridiagonal_params,
}
"""What is computed matrix by matrix: name → the parameters of its template."""

TEMPLATE_RULES: dict[str, TemplateRule] = {
    "dot_general": TemplateRule("matmul", lambda n: not is_small_dot(n), _matmul_operands, _matmul_params,
                                widens=True),
    "conv_general_dilated": TemplateRule("conv", lambda n: True, _conv_operands, _conv_params),
    "sort": TemplateRule("sort", lambda n: True, contiguous_operands, _sort_params, contiguous=True),
    "attention": TemplateRule("attention", lambda n: True, _attention_operands, _attention_params),
    "fft": TemplateRule("fft", lambda n: True, contiguous_operands, _fft_params, contiguous=True),
    **{name: _matrix_rule(name, params) for name, params in MATRICES.items()},
    "top_k": TemplateRule("top_k", lambda n: True, contiguous_operands, _top_k_params, contiguous=True),
}
