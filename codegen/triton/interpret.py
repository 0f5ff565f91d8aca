"""Triton's interpreter as a way to run launches without a GPU: in this process, on NumPy buffers.

Triton's own interpreter executes each program of the grid on NumPy blocks. Some things in it are
replaced while our kernels run, and put back afterwards: conversions and products of bfloat16 (it
truncates and multiplies the bits; GPUs do not), blocks made of one comparison (it forgets that they are
bool), and folds and scans with functions of our own (it calls them element by element in Python; here
they run on halves of blocks, in a tree as on a GPU). Needs Triton.

Only one thread at a time can interpret, since Triton patches its language module for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

_LOCK = threading.RLock()
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class HostBuffer:
    """A NumPy array as the tensor that Triton's interpreter wants to see: an address and a dtype.

    The interpreter copies tensors to the host and back; this one is there already, so that each of
    those methods of PyTorch returns the buffer itself.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = "int1" if array.dtype == np.bool_ else array.dtype.name

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> HostBuffer:
        return self

    cpu = untyped_storage

    def new_empty(self, size: int, device: str) -> HostBuffer:
        return self

    def set_(self, *args: Any) -> None:
        """The interpreter makes its copy a view of the storage; ours is one already."""

    copy_ = set_

    def storage_offset(self) -> int:
        return 0

    size = stride = storage_offset


def interpret(
    function: Any, grid: int, buffers: Sequence[np.ndarray], sizes: Sequence[int], **constants: Any
) -> None:
    """Runs an `InterpretedFunction` over `grid` programs on contiguous writable buffers, in place.

    Raises triton's InterpreterError with the first error of a program.
    """
    with _LOCK, _patched():
        function[(grid,)](*map(HostBuffer, buffers), *map(int, sizes), **constants)


@contextlib.contextmanager
def _patched() -> Iterator[None]:
    replaced = [(interpreter.interpreter_builder, name, value) for name, value in _BUILDER.items()]
    replaced += [(interpreter.ReduceOps, "apply_impl", _reduce), (interpreter.ScanOps, "apply_impl", _scan)]
    saved = [(owner, name, vars(owner).get(name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        for owner, name, value in saved:
            delattr(owner, name) if value is None else setattr(owner, name, value)


def _cast(source: TensorHandle, target: Any, *rounding: Any) -> TensorHandle:
    """A conversion between floats, to nearest even; bfloat16 is held as its bits."""
    data = source.data.view(_BFLOAT16) if source.dtype.scalar == tl.bfloat16 else source.data
    if target.scalar == tl.bfloat16:
        return TensorHandle(data.astype(np.float32).astype(_BFLOAT16).view(np.uint16), tl.bfloat16)
    return TensorHandle(data.astype(interpreter._get_np_dtype(target)), target.scalar)


def _splat(block: Any, scalar: TensorHandle) -> TensorHandle:
    """A block of one scalar, in the type of its data (comparisons are labelled as their operands)."""
    return TensorHandle(
        np.full(block.shape, scalar.data.reshape(-1)[0], scalar.data.dtype), scalar.dtype.scalar
    )


def _dot(a: TensorHandle, b: TensorHandle, start: TensorHandle, *precision: Any) -> TensorHandle:
    """A product of blocks, summed in the accumulator's type; bfloat16 is held as its bits."""
    kind = start.data.dtype
    x, y = (t.data.view(_BFLOAT16) if t.dtype.scalar == tl.bfloat16 else t.data for t in (a, b))
    return TensorHandle(np.matmul(x.astype(kind), y.astype(kind)) + start.data, start.dtype.scalar)


_BUILDER: dict[str, Callable[..., TensorHandle]] = {
    "create_fp_ext": _cast,
    "create_fp_trunc": _cast,
    "create_fp_to_fp": _cast,
    "create_splat": _splat,
    "create_dot": _dot,
}


def _wrapped(data: np.ndarray, like: Any) -> Any:
    dtype = like.dtype.scalar
    return tl.tensor(
        TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)) if data.ndim else dtype
    )


def _combined(
    combine: Any, left: list[np.ndarray], right: list[np.ndarray], like: Sequence[Any]
) -> list[np.ndarray]:
    """combine(left, right) on blocks; each list holds one array for every operand of the fold."""
    out = combine.fn(
        *(_wrapped(a, t) for a, t in zip(left, like)), *(_wrapped(a, t) for a, t in zip(right, like))
    )
    return [t.handle.data for t in (out if isinstance(out, (tuple, list)) else (out,))]


def _reduce(self: Any, operands: Sequence[Any]) -> list[Any]:
    """A fold in a tree: halves of the block against each other until one is left."""
    axis = 0 if self.axis is None else self.axis
    arrays = [t.handle.data.reshape(-1) if self.axis is None else t.handle.data for t in operands]
    while arrays[0].shape[axis] > 1:
        half = arrays[0].shape[axis] // 2
        first, second = zip(*(np.split(a, 2, axis) for a in arrays))
        arrays = _combined(self.combine_fn, list(first), list(second), operands)
        assert arrays[0].shape[axis] == half
    if self.axis is None:
        return [
            tl.tensor(TensorHandle(a.reshape(1), t.dtype.scalar), t.dtype.scalar)
            for a, t in zip(arrays, operands)
        ]
    kept = arrays if self.keep_dims else [a.squeeze(axis) for a in arrays]
    return [_wrapped(a, t) for a, t in zip(kept, operands)]


def _scan(self: Any, operands: Sequence[Any]) -> list[Any]:
    """Inclusive prefixes in log steps: each element takes in the one 1, 2, 4, ... places before it."""
    axis = self.axis
    arrays = [np.flip(t.handle.data, axis) if self.reverse else t.handle.data for t in operands]
    length, step = arrays[0].shape[axis], 1
    place = np.arange(length).reshape([-1 if d == axis else 1 for d in range(arrays[0].ndim)])
    while step < length:
        folded = _combined(self.combine_fn, [np.roll(a, step, axis) for a in arrays], arrays, operands)
        arrays = [np.where(place < step, a, f) for a, f in zip(arrays, folded)]
        step *= 2
    return [
        _wrapped(np.ascontiguousarray(np.flip(a, axis) if self.reverse else a), t)
        for a, t in zip(arrays, operands)
    ]
