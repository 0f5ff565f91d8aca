"""Functions of JAX that repeat an array, or divide it, as often as sizes say: written without lists of that many parts.

`jnp.resize` and `jnp.pad(x, n, mode="wrap")` put copies side by side in a list, one by one; `jnp.array_split` makes a
list of larger parts and one of smaller. Which length these lists have no symbolic size can say: copies are one tile
here, and each part has the size that its place gives it. Where all sizes are known they are JAX's own.

    >>> jax.numpy.array_split(jnp.arange(5), 3)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32), Array([4], dtype=int32)]
"""

from __future__ import annotations

import math
import operator
import types
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.lax import slicing
from jax._src.numpy import fft, lax_numpy

from dynacomp.capture.graph.sized_calls import index_or_size
from dynacomp.capture.graph.sizes import is_symbolic

JAX_PAD_WRAP = lax_numpy._pad_wrap
JAX_RESIZE = jnp.resize
JAX_SPLIT = lax_numpy._split


def resize(a: Any, new_shape: Any) -> Any:
    """`jnp.resize`."""
    shape = tuple(new_shape) if isinstance(new_shape, (tuple, list)) else (new_shape,)
    if not any(map(is_symbolic, (*jnp.shape(a), *shape))) or any(d < 0 for d in shape):
        return JAX_RESIZE(a, new_shape)
    flat, size = jnp.ravel(a), math.prod(shape)
    if flat.size == 0 or size == 0:
        return jnp.zeros_like(flat, shape=shape)
    return jax.lax.slice(jnp.tile(flat, -(-size // flat.size)), (0,), (size,)).reshape(shape)


def pad_wrap(array: Any, pad_width: Any) -> Any:
    """`jnp.pad(array, pad_width, mode="wrap")`: of copies enough for both sides, what lies within the padding."""
    if not any(map(is_symbolic, (*array.shape, *(n for pair in pad_width for n in pair)))):
        return JAX_PAD_WRAP(array, pad_width)
    for axis, (before, after) in enumerate(pad_width):
        size = array.shape[axis]
        if size == 0:
            lax_numpy._check_no_padding(pad_width[axis], "wrap")
            continue
        left, right = -(-before // size), -(-after // size)
        copies = [left + right + 1 if i == axis else 1 for i in range(array.ndim)]
        start = left * size - before
        array = slicing.slice_in_dim(jnp.tile(array, copies), start, start + before + size + after, axis=axis)
    return array


def split(op: str, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """`jnp.array_split` and the like, here into a known number of parts."""
    n = indices_or_sections
    if op != "array_split" or type(n) is not int or n < 1 or type(axis) is not int or not (
            -jnp.ndim(ary) <= axis < jnp.ndim(ary) and is_symbolic(ary.shape[axis])):
        return JAX_SPLIT(op, ary, n, axis)
    return list(jax.lax.split(ary, [(ary.shape[axis] + n - 1 - i) // n for i in range(n)], axis=axis))


lax_numpy._pad_wrap = pad_wrap
lax_numpy._split = split
fft.operator = types.SimpleNamespace(**vars(operator) | {"index": index_or_size})  # type: ignore[assignment]
