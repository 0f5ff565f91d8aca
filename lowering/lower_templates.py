"""How ops that want a hand-written kernel become TemplateSteps.

`matmul(node, load)` canonicalises a `dot_general` to `out[batch, m, n] = a[batch, m, k] b[batch, k, n]`
by element strides, so that transposes and broadcasts around it cost nothing. Where an operand's
dimensions cannot be merged into one stride each, the operand is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from dynacomp.capture.graph import Node
from dynacomp.lowering.indexing import ZERO, coefficient, product, strides, total
from dynacomp.lowering.loops import Expr, Load
from dynacomp.lowering.reader import Reader, dtype_of, shape_of

SMALL_PRODUCT = 4096
"""Products of fewer multiplications than this stay loops, so that they fuse."""


@dataclass(frozen=True)
class View:
    """A strided reading of a buffer: element strides for each dimension of a node."""

    buffer: str
    strides: tuple[sympy.Expr, ...]


def view_of(reader: Reader, node: Node) -> View | None:
    """The node as a strided view of one realised buffer that starts at its first element, or None."""
    shape = shape_of(node)
    at = reader.point(shape)
    expr: Expr = reader.read(node, at)
    if not isinstance(expr, Load) or expr.mask is not None or expr.dtype != dtype_of(node):
        return None
    steps = [ZERO if v == 0 else coefficient(expr.index, v) for v in at]
    if any(s is None for s in steps):
        return None
    rest = expr.index - sympy.Add(*(s * v for s, v in zip(steps, at)))
    return View(expr.buffer, tuple(steps)) if sympy.expand(rest) == 0 else None


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
    left_dims: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # batch, free, contracted
    right_dims: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # batch, contracted, free


def dot_of(node: Node) -> Dot:
    """The dimensions of a dot_general node."""
    left, right = node.args
    (left_in, right_in), (left_batch, right_batch) = node.kwargs["dimension_numbers"]
    left_free = tuple(d for d in range(len(shape_of(left))) if d not in (*left_in, *left_batch))
    right_free = tuple(d for d in range(len(shape_of(right))) if d not in (*right_in, *right_batch))
    return Dot(left, right, (tuple(left_batch), left_free, tuple(left_in)),
               (tuple(right_batch), tuple(right_in), right_free))


def three_strides(node: Node, view: View, dims: Sequence[Sequence[int]]) -> tuple[sympy.Expr, ...] | None:
    """The strides of the three merged dimensions of a matmul operand, or None."""
    found = [merged(d, shape_of(node), view.strides) for d in dims]
    return None if any(s is None for s in found) else tuple(found)


def is_small_dot(node: Node) -> bool:
    """Cheaper as a fused fold than as a template: few multiplications, or a matrix and a vector."""
    dot = dot_of(node)
    left, right = shape_of(dot.left), shape_of(dot.right)
    batch, m, k = (total(left[d] for d in dims) for dims in dot.left_dims)
    n = total(right[d] for d in dot.right_dims[2])
    return batch * m * n * k <= SMALL_PRODUCT or min(m, n) == 1 and batch * m * n >= 1


def matmul_params(node: Node, a: tuple[sympy.Expr, ...], b: tuple[sympy.Expr, ...]) -> dict[str, Any]:
    """The params of the "matmul" template, given both operands' strides."""
    dot = dot_of(node)
    left, right = shape_of(dot.left), shape_of(dot.right)
    batch, m, k = (product(tuple(left[d] for d in dims)) for dims in dot.left_dims)
    n = product(tuple(right[d] for d in dot.right_dims[2]))
    return {"batch": batch, "m": m, "n": n, "k": k, "a_strides": a, "b_strides": b}


__all__ = ["Dot", "View", "dot_of", "is_small_dot", "matmul_params", "merged", "row_major",
           "three_strides", "view_of"]
