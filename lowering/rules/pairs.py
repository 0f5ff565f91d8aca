"""Complex arrays in loops: pairs of floats in memory, never a value.

Kernels see the buffer of a complex array as floats with one more dimension, of two (`Buffer.in_kernels`). `real` and
`imag` read every second element; `complex` stores two, and whoever takes it apart reads its operands instead.
"""

from __future__ import annotations

import sympy

from dynacomp.capture.graph.graph import Node, node_at
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.rules.reader import Point, Reader, Rule, dtype_of, op_of, shape_of
from dynacomp.lowering.sizes.indexing import flat

Shape = tuple[sympy.Expr, ...]


def place_of_part(at: Point, shape: Shape, part: int) -> sympy.Expr:
    """Where the real (0) or imaginary (1) part of an element lies."""
    return sympy.expand(2 * flat(at, shape)) + part


def _part(part: int) -> Rule:
    def rule(reader: Reader, node: Node, at: Point) -> Expr:
        of = node_at(node)
        if of is None:
            number = node.args[0]
            return reader.const((number.real, number.imag)[part].item(), dtype_of(node))
        if op_of(of) == "complex":
            operand = of.args[part]
            return reader.read(operand, at if shape_of(operand) else ())
        buffer = reader.views.get(of.name, of.name)
        return reader.load(buffer, place_of_part(at, shape_of(of), part), dtype_of(node))

    return rule


PARTS: dict[str, Rule] = {"real": _part(0), "imag": _part(1)}
PAIRS = frozenset({*PARTS, "complex"})
"""The ops that loops have for complex arrays."""
