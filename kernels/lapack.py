"""The decompositions of `lapack.h`: the calls and references behind their rows of `TEMPLATES`, and LAPACK's addresses.

SciPy shows the routines of its LAPACK to Cython, as capsules; JAX takes its own from there too. A library that was
compiled with `lapack.h` gets them with `link`, once it is loaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack, lapack

from dynacomp.kernels.linalg import ELEMENTS

Params = Mapping[str, Any]
Dtypes = Sequence[np.dtype]

TABLE = "dynacomp_lapack"
ROUTINES = (  # as `Routine` in lapack.h lists them: for real and for complex elements
    ("potrf", "potrf"), ("getrf", "getrf"), ("trsm", "trsm"), ("geqrf", "geqrf"), ("orgqr", "ungqr"),
    ("gesdd", "gesdd"), ("syevd", "heevd"), ("geev", "geev"), ("gtsv", "gtsv"),
)

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


@functools.cache
def addresses() -> tuple[int, ...]:
    """One for each routine and element type."""
    shown = cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__
    names = [letter + pair[letter in "cz"] for pair in ROUTINES for letter in "sdcz"]
    return tuple(_pointer(shown[n], _name(shown[n])) for n in names)


def link(library: ctypes.CDLL) -> None:
    """Fills in the addresses, where the library has room for them."""
    try:
        table = (ctypes.c_void_p * len(addresses())).in_dll(library, TABLE)
    except ValueError:
        return
    table[:] = list(addresses())


# --- the calls


def _pointers(dtypes: Dtypes, operands: Sequence[str], results: Sequence[str]) -> str:
    consts = ["const "] * len(operands) + [""] * len(results)
    return ", ".join(f"({c}{ELEMENTS[d.name]}*)({p})" for c, d, p in zip(consts, dtypes, [*operands, *results]))


def call(function: str, sizes: str, flags: str = "") -> Callable[..., str]:
    """The call of a function with the parameters `sizes` and `flags`, then all arrays."""
    def statement(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str],
                  expr: Callable[[Any], str]) -> str:
        given = [*(expr(params[s]) for s in sizes.split()), *("true" if params[f] else "false" for f in flags.split())]
        return f"dynacomp::{function}(rt, {', '.join(given)}, {_pointers(dtypes, operands, results)});"

    return statement


def svd_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str],
             expr: Callable[[Any], str]) -> str:
    own = call("singular", "batch m n", "full")(params, dtypes, operands, results, expr)
    none = f"({ELEMENTS[dtypes[0].name]}*)nullptr"
    return own if params["vectors"] else own.replace(");", f", {none}, {none});")


def eig_call(params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str],
             expr: Callable[[Any], str]) -> str:
    complex_type = ELEMENTS[dtypes[1].name]
    kept = iter(results[1:])
    sides = [f"({complex_type}*)({next(kept) if params[side] else 'nullptr'})" for side in ("left", "right")]
    arrays = [_pointers(dtypes[:2], operands, results[:1]), *sides]
    return f"dynacomp::general(rt, {expr(params['batch'])}, {expr(params['n'])}, {', '.join(arrays)});"


# --- the same by SciPy, matrix by matrix


def _function(name: str, a: np.ndarray) -> Any:
    real, other = next(pair for pair in ROUTINES if pair[0] == name)
    return getattr(lapack, "sdcz"["fdFD".index(a.dtype.char)] + (other if a.dtype.kind == "c" else real))


def _each(params: Params, rows: str, columns: str, *arrays: np.ndarray) -> list[np.ndarray]:
    return [x.reshape(int(params["batch"]), int(params[rows]), int(params[columns])) for x in arrays]


def _stacked(found: Sequence[Sequence[Any]]) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(x) for x in zip(*found))


def qr_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    return _stacked([_function("geqrf", x)(x)[:2] for x in _each(params, "m", "n", a)[0]])


def reflectors_reference(params: Params, a: np.ndarray, taus: np.ndarray) -> tuple[np.ndarray, ...]:
    scales = taus.reshape(int(params["batch"]), -1)
    return _stacked([_function("orgqr", x)(x, t)[:1] for x, t in zip(_each(params, "m", "n", a)[0], scales)])


def svd_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        u, s, vt, _ = _function("gesdd", x)(x, compute_uv=params["vectors"], full_matrices=params["full"])
        return (s, u, vt) if params["vectors"] else (s,)

    return _stacked([one(x) for x in _each(params, "m", "n", a)[0]])


def eigh_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        values, vectors, _ = _function("syevd", x)(x, lower=params["lower"])
        return vectors, values

    return _stacked([one(x) for x in _each(params, "n", "n", a)[0]])


def eig_reference(params: Params, a: np.ndarray) -> tuple[np.ndarray, ...]:
    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        wide = np.result_type(x.dtype, np.complex64)
        values, left, right = np.linalg.eigvals(x), *_sides(x)
        kept = [v for v, side in ((left, "left"), (right, "right")) if params[side]]
        return tuple(v.astype(wide) for v in (values, *kept))

    return _stacked([one(x) for x in _each(params, "n", "n", a)[0]])


def _sides(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    right = np.linalg.eig(x)[1]
    left = np.linalg.inv(right).conj().T
    return left / np.linalg.norm(left, axis=0), right


def tridiagonal_reference(params: Params, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    *lines, b = arrays
    below, on, above = (x.reshape(int(params["batch"]), -1) for x in lines)
    solved = [np.linalg.solve(np.diag(l[1:], -1) + np.diag(d) + np.diag(u[:-1], 1), x)
              for l, d, u, x in zip(below, on, above, _each(params, "n", "columns", b)[0])]
    return (np.stack(solved).astype(b.dtype),)
