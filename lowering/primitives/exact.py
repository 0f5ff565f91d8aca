"""Ops on constants, by NumPy where that gives the bits of eager JAX: XLA compiles each operation that eager JAX
computes, for 5 to 30 milliseconds.

Ops that only move elements (`_MOVES`) are the same in both, and so are those that are exact or rounded correctly
(`_SCALARS`, by the references of `kernel_ir.scalars`), selections and conversions: but for narrow floats, and where a
number is subnormal, which XLA takes for zero on some CPUs. All else is computed by the Op's reference.

    >>> from dynacomp.lowering.primitives.ops import OPS
    >>> evaluate(OPS["div"], (np.float32(1), np.float32(3)), {})
    array(0.33333334, dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.kernel_ir import scalars
from dynacomp.lowering.primitives.ops import Op

_SCALARS = frozenset("""
    abs add and ceil div eq floor ge gt is_finite le lt mul ne neg not or rem shift_left shift_right_arithmetic
    shift_right_logical sign sqrt sub xor""".split())
_TO_BOOL = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_finite"})


def _broadcast_in_dim(x: np.ndarray, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> np.ndarray:
    wide = [1] * len(shape)
    for size, d in zip(x.shape, broadcast_dimensions):
        wide[d] = size
    return np.broadcast_to(x.reshape(wide), shape)


def _iota(dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> np.ndarray:
    line = np.arange(shape[dimension]).astype(dtype)
    return _broadcast_in_dim(line, shape, (dimension,))


def _slice(x: np.ndarray, start_indices: Sequence[int], limit_indices: Sequence[int],
           strides: Sequence[int] | None) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


_MOVES: dict[str, Callable[..., np.ndarray]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "iota": _iota,
    "reshape": lambda x, new_sizes: x.reshape(new_sizes),
    "rev": lambda x, dimensions: np.flip(x, dimensions),
    "slice": _slice,
    "transpose": lambda x, permutation: x.transpose(permutation),
}


def evaluate(op: Op, args: Sequence[Any], params: Mapping[str, Any]) -> np.ndarray:
    """The value of an Op of one result on constants (NumPy's arrays and scalars); also while JAX traces around us.
    Raises what the Op raises."""
    value = _by_numpy(op.name, [*map(np.asarray, args)], params)
    if value is not None:
        return value
    with jax.ensure_compile_time_eval():
        return np.asarray(op(*args, **params))


def evaluated(graph: Graph) -> Any:
    """What a primitive Graph without inputs gives, a tuple; its Ops of one result are computed as in `evaluate`."""

    def call(target: Any, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        known = isinstance(target, Op) and all(isinstance(a, (np.ndarray, np.generic, jax.Array)) for a in args)
        value = _by_numpy(target.name, [*map(np.asarray, args)], params) if known else None
        return target(*args, **params) if value is None else value

    with jax.ensure_compile_time_eval():
        return interpreter.run(graph, call=call)


def _by_numpy(name: str, args: Sequence[np.ndarray], params: Mapping[str, Any]) -> np.ndarray | None:
    """The value where NumPy and JAX agree on it, else None."""
    if name in _MOVES:
        return np.array(_MOVES[name](*args, **params))
    if not args or not all(map(_is_exact, args)):
        return None
    value = _computed(name, args, params)
    return value if value is not None and _is_exact(value) else None


def _computed(name: str, args: Sequence[np.ndarray], params: Mapping[str, Any]) -> np.ndarray | None:
    if name == "select_n" and len(args) == 3 and args[0].dtype == bool:
        return np.where(args[0], args[2], args[1])
    if name == "convert_element_type":
        dtype = np.dtype(params["new_dtype"])
        return scalars.convert(args[0], dtype) if _is_plain(dtype) else None
    if name not in _SCALARS or params:
        return None
    return scalars.evaluate(name, tuple(args), np.dtype(bool) if name in _TO_BOOL else args[0].dtype)


def _is_exact(x: np.ndarray) -> bool:
    """Whether both know it: XLA takes subnormal numbers for zeros on some CPUs."""
    if not _is_plain(x.dtype):
        return False
    return x.dtype.kind != "f" or not np.any((x != 0) & (np.abs(x) <= np.finfo(x.dtype).tiny))


def _is_plain(dtype: np.dtype) -> bool:
    return dtype in (np.float32, np.float64) or dtype.kind in "biu"
