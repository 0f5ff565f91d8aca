"""Factors and solves of `linalg.h` and, for large matrices, `lapack.h`: calls and references of their `TEMPLATES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg

Params = Mapping[str, Any]
Dtypes = Sequence[np.dtype]

ELEMENTS = {"float32": "float", "float64": "double",
            "complex64": "dynacomp::tile::complex64", "complex128": "dynacomp::tile::complex128"}
FLAGS = ("left", "lower", "transposed", "conjugated", "unit")


def applies(params: Params, dtypes: Dtypes) -> bool:
    return dtypes[0].name in ELEMENTS


def _cast(dtype: np.dtype, pointer: str, const: str = "") -> str:
    return f"({const}{ELEMENTS[dtype.name]}*)({pointer})"


def pointers(dtypes: Dtypes, operands: int, results: int) -> list[str]:
    """The types of so many arguments of the header's functions."""
    element = ELEMENTS[dtypes[0].name]
    return [f"const {element}*"] * operands + [f"{element}*"] * results


def cholesky_call(
    params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable[[Any], str]
) -> str:
    arrays = f"{_cast(dtypes[0], operands[0], 'const ')}, {_cast(dtypes[0], results[0])}"
    return f"dynacomp::cholesky_any(rt, {expr(params['batch'])}, {expr(params['n'])}, {arrays});"


def lu_call(
    params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable[[Any], str]
) -> str:
    sizes = ", ".join(expr(params[s]) for s in ("batch", "m", "n"))
    arrays = f"{_cast(dtypes[0], operands[0], 'const ')}, {_cast(dtypes[0], results[0])}"
    return f"dynacomp::lu_any(rt, {sizes}, {arrays}, (int32_t*)({results[1]}), (int32_t*)({results[2]}));"


def triangular_call(
    params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable[[Any], str]
) -> str:
    sizes = ", ".join(expr(params[s]) for s in ("batch", "rows", "columns"))
    flags = ", ".join("true" if params[s] else "false" for s in FLAGS)
    arrays = ", ".join(_cast(dtypes[0], p, "const ") for p in operands)
    return f"dynacomp::triangular_solve_any(rt, {sizes}, {flags}, {arrays}, {_cast(dtypes[0], results[0])});"


def cholesky_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    n = int(params["n"])
    return (np.stack([_lower(x) for x in a.reshape(-1, n, n)]) if a.size else a,)


def _lower(a: np.ndarray) -> np.ndarray:
    try:
        return np.tril(np.linalg.cholesky(np.tril(a) + np.tril(a, -1).conj().T)) + np.triu(a, 1)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan + (1j * np.nan if a.dtype.kind == "c" else 0))


def lu_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    m, n = int(params["m"]), int(params["n"])
    found = [scipy.linalg.lapack.get_lapack_funcs("getrf", (x,))(x)[:2] for x in a.reshape(-1, m, n)]
    orders = np.tile(np.arange(m, dtype=np.int32), (len(found), 1))
    for order, (_, pivots) in zip(orders, found):
        for i, other in enumerate(pivots):
            order[[i, other]] = order[[other, i]]
    return np.stack([x for x, _ in found]), np.stack([p for _, p in found]).astype(np.int32), orders


def triangular_reference(params: Params, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    rows, columns = int(params["rows"]), int(params["columns"])
    n = rows if params["left"] else columns
    out = [_solve(params, x, y) for x, y in zip(a.reshape(-1, n, n), b.reshape(-1, rows, columns))]
    return (np.stack(out) if out else b,)


def _solve(params: Params, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    half = np.tril(a) if params["lower"] else np.triu(a)
    if params["unit"]:
        np.fill_diagonal(half, 1)
    half = half.T if params["transposed"] else half
    half = half.conj() if params["conjugated"] else half
    solved = np.linalg.solve(half, b) if params["left"] else np.linalg.solve(half.T, b.T).T
    return solved.astype(b.dtype)
