"""Templates that Triton leaves to XLA: each row of `SEAMS` is the template in JAX, on flat buffers.

Products, convolutions, sorting, attention, linear algebra and Fourier transforms have vendor libraries or good XLA
lowerings on GPUs (its products are 20 to 30 times as fast on an H100 as plain blocks in Triton); the rows here take
the params of `dynacomp.kernels.templates` (sizes already concrete) and element strides, and return flat arrays in the
buffers' own order. Products are as precise as the program asks: by default that is JAX's choice on the device.

    >>> strided(jnp.arange(6), (3, 2), (1, 3)).tolist()
    [[0, 3], [1, 4], [2, 5]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import linalg

Params = Mapping[str, Any]


def strided(x: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """The elements of the flat array `x` at `shape` and element `strides`: a transpose of a reshape where
    the strides say so, else a gather."""
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], shape[d] == 1))
    if dense([shape[d] for d in order], [strides[d] for d in order]) and x.size == math.prod(shape):
        return x.reshape([shape[d] for d in order]).transpose(np.argsort(order))
    at = sum((lax.broadcasted_iota(np.int32, shape, d) * s for d, s in enumerate(strides)), jnp.int32(0))
    return x.reshape(-1)[at]


def dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True when these are the row-major strides of `shape` (those of ones do not matter)."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def in_order(x: Any, strides: Sequence[int]) -> Any:
    """`x` flat, as a buffer holds it whose element strides are `strides` (dense in some order)."""
    return x.transpose(sorted(range(x.ndim), key=lambda d: (-strides[d], x.shape[d] == 1))).reshape(-1)


def precision_of(params: Params) -> Any:
    """The precision that the program asks for, of each operand; None where it asks for none."""
    asked = params.get("precision")
    return asked and tuple(lax.Precision[name] for name in asked)


def matmul(params: Params, dtypes: Sequence[np.dtype], a: Any, b: Any) -> tuple[Any, ...]:
    """`lax.dot_general` of each pair of matrices, as wide as the result is."""
    batch, m, n, k = (params[p] for p in ("batch", "m", "n", "k"))
    left, right = strided(a, (batch, m, k), params["a_strides"]), strided(b, (batch, k, n), params["b_strides"])
    dims = (((1,), (0,)), ((), ())) if batch == 1 else (((2,), (1,)), ((0,), (0,)))
    left, right = (left[0], right[0]) if batch == 1 else (left, right)
    if left.dtype != right.dtype:  # floats of 16 bits stand for their conversions
        left, right = left.astype(dtypes[-1]), right.astype(dtypes[-1])
    return (lax.dot_general(left, right, dims, precision_of(params), dtypes[-1]),)


def conv(params: Params, dtypes: Sequence[np.dtype], lhs: Any, rhs: Any) -> tuple[Any, ...]:
    """`lax.conv_general_dilated` in the order (n, c, *spatial)."""
    p = params
    x = strided(lhs, (p["n"], p["c"], *p["spatial_in"]), p["lhs_strides"])
    w = strided(rhs, (p["k"], p["c"] // p["groups"], *p["kernel"]), p["rhs_strides"])
    out = lax.conv_general_dilated(
        x,
        w,
        p["stride"],
        list(zip(p["pad_lo"], p["pad_hi"])),
        p["lhs_dilation"],
        p["rhs_dilation"],
        feature_group_count=p["groups"],
        batch_group_count=p["batch_groups"],
        precision=precision_of(p),
        preferred_element_type=dtypes[-1],
    )
    return (in_order(out, p["out_strides"]),)


def sort(params: Params, dtypes: Sequence[np.dtype], *operands: Any) -> tuple[Any, ...]:
    """`lax.sort` of arrays of the params' shapes."""
    shaped = [x.reshape(s) for x, s in zip(operands, params["shapes"])]
    return tuple(lax.sort(shaped, dimension=params["dimension"], num_keys=params["num_keys"], is_stable=True))


def top_k(params: Params, dtypes: Sequence[np.dtype], x: Any) -> tuple[Any, ...]:
    """`lax.top_k` of each row."""
    return tuple(lax.top_k(x.reshape(params["rows"], params["n"]), params["k"]))


def attention(
    params: Params, dtypes: Sequence[np.dtype], q: Any, k: Any, v: Any, bias: Any = None
) -> tuple[Any, ...]:
    """softmax(scale * q k^T + bias) v: scores and their softmax in float32, the products of what the operands are."""
    b, h, g, s, t, d, w = (params[x] for x in ("batch", "heads", "group", "queries", "keys", "depth", "width"))
    q, k, v = (
        strided(x, (b, h, g, *shape), params[name])
        for x, shape, name in ((q, (s, d), "q_strides"), (k, (t, d), "k_strides"), (v, (t, w), "v_strides"))
    )
    wanted: dict[str, Any] = {"precision": precision_of(params), "preferred_element_type": np.float32}
    scores = jnp.einsum("bhgsd,bhgtd->bhgst", q, k, **wanted) * params["scale"]
    hidden = jnp.zeros((s, t), bool)
    if bias is not None:
        add = strided(bias, (b, h, g, s, t), params["bias_strides"])
        scores, hidden = scores + add, (add == -jnp.inf) & params["marks"]
    if params["causal"]:
        hidden = hidden | ~jnp.tril(jnp.ones((s, t), bool))
    scores = jnp.where(hidden, np.float32(params["fill"]), scores)
    out = jnp.einsum("bhgst,bhgtw->bhgsw", jax.nn.softmax(scores).astype(v.dtype), v, **wanted)
    return (in_order(out.astype(dtypes[-1]), params["out_strides"]),)


def cholesky(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """`lax.linalg.cholesky` of each matrix: what is above the diagonal nobody reads."""
    n = params["n"]
    return (lax.linalg.cholesky(a.reshape(params["batch"], n, n), symmetrize_input=False),)


def lu(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """`lax.linalg.lu` of each matrix."""
    return tuple(lax.linalg.lu(a.reshape(params["batch"], params["m"], params["n"])))


def fft(params: Params, dtypes: Sequence[np.dtype], x: Any) -> tuple[Any, ...]:
    """`lax.fft` over the trailing dimensions."""
    lengths = params["lengths"]
    held = (*lengths[:-1], lengths[-1] // 2 + 1) if params["kind"] == "IRFFT" else lengths
    return (lax.fft(x.reshape(params["batch"], *held), params["kind"], lengths),)


def _matrices(params: Params, rows: str, columns: str, a: Any) -> Any:
    return a.reshape(params["batch"], params[rows], params[columns])


def geqrf(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """R with the reflectors below it, and their scales."""
    return tuple(linalg.geqrf(_matrices(params, "m", "n", a)))


def householder_product(params: Params, dtypes: Sequence[np.dtype], a: Any, scales: Any) -> tuple[Any, ...]:
    """The first columns of the product of each matrix' reflectors."""
    held = _matrices(params, "m", "n", a)
    return (lax.linalg.householder_product(held, scales.reshape(params["batch"], params["k"])),)


def svd(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """Singular values, then vectors."""
    full, vectors = params["full"], params["vectors"]
    found = lax.linalg.svd(_matrices(params, "m", "n", a), full_matrices=full, compute_uv=vectors)
    return (found[1], found[0], found[2]) if vectors else (found,)


def eigh(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """Eigenvectors and eigenvalues of each matrix, of which one half counts."""
    return tuple(lax.linalg.eigh(_matrices(params, "n", "n", a), lower=params["lower"], symmetrize_input=False))


def eig(params: Params, dtypes: Sequence[np.dtype], a: Any) -> tuple[Any, ...]:
    """Eigenvalues, then left and right eigenvectors."""
    return tuple(lax.linalg.eig(_matrices(params, "n", "n", a), compute_left_eigenvectors=params["left"],
                                compute_right_eigenvectors=params["right"]))


def tridiagonal_solve(params: Params, dtypes: Sequence[np.dtype], *arrays: Any) -> tuple[Any, ...]:
    """`lax.linalg.tridiagonal_solve` of each system."""
    *lines, b = arrays
    below, on, above = (x.reshape(params["batch"], params["n"]) for x in lines)
    return (lax.linalg.tridiagonal_solve(below, on, above, _matrices(params, "n", "columns", b)),)


def triangular_solve(params: Params, dtypes: Sequence[np.dtype], a: Any, b: Any) -> tuple[Any, ...]:
    """`lax.linalg.triangular_solve` of each pair of matrices."""
    p = params
    n = p["rows"] if p["left"] else p["columns"]
    solved = lax.linalg.triangular_solve(
        a.reshape(p["batch"], n, n),
        b.reshape(p["batch"], p["rows"], p["columns"]),
        left_side=p["left"],
        lower=p["lower"],
        transpose_a=p["transposed"],
        conjugate_a=p["conjugated"],
        unit_diagonal=p["unit"],
    )
    return (solved,)


SEAMS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "matmul": matmul,
    "conv": conv,
    "sort": sort,
    "top_k": top_k,
    "attention": attention,
    "cholesky": cholesky,
    "lu": lu,
    "fft": fft,
    "geqrf": geqrf,
    "householder_product": householder_product,
    "svd": svd,
    "eigh": eigh,
    "eig": eig,
    "triangular_solve": triangular_solve,
    "tridiagonal_solve": tridiagonal_solve,
}
