"""How each pointwise op becomes a scalar expression: one row each.

Most are a scalar function of the same name; the others are short rules. A float16 or bfloat16 op
rounds its result to its dtype, because every `Apply` does.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr
from dynacomp.lowering.kernel_ir.scalars import OF_JAX
from dynacomp.lowering.rules.reader import Point, Reader, Rule, dtype_of, shape_of


def read_at(reader: Reader, value: Any, at: Point) -> Expr:
    """An operand of a pointwise op: scalars have no dimensions to index."""
    return reader.read(value, at if shape_of(value) else ())


def _operands(reader: Reader, node: Node, at: Point) -> list[Expr]:
    return [read_at(reader, a, at) for a in node.args]


def _same_name(reader: Reader, node: Node, at: Point) -> Expr:
    return reader.apply(node.target.name, *_operands(reader, node, at))


def _convert(reader: Reader, node: Node, at: Point) -> Expr:
    return reader.apply("convert", *_operands(reader, node, at), dtype=dtype_of(node))


def _bitcast(reader: Reader, node: Node, at: Point) -> Expr:
    return reader.apply("bitcast", *_operands(reader, node, at), dtype=dtype_of(node))


def _round(reader: Reader, node: Node, at: Point) -> Expr:
    even = int(node.kwargs["rounding_method"]) == int(jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    return reader.apply("round_even" if even else "round_away", *_operands(reader, node, at))


def _pow(reader: Reader, node: Node, at: Point) -> Expr:
    x, y = _operands(reader, node, at)
    return reader.apply("pow", x, reader.apply("convert", y, dtype=x.dtype))


def _select_n(reader: Reader, node: Node, at: Point) -> Expr:
    """Cases are numbered: a bool picks case 0 when false; out of range picks the nearest."""
    which = read_at(reader, node.args[0], at)
    cases = [read_at(reader, c, at) for c in node.args[1:]]
    if which.dtype == np.bool_ and len(cases) == 2:
        return reader.apply("select", which, cases[1], cases[0])
    result = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        here = reader.apply("le", which, reader.const(k, which.dtype))
        result = reader.apply("select", here, cases[k], result)
    return result


@functools.cache
def digamma_at_zero() -> float:
    """What the installed JAX gives at digamma's pole 0: NaN before 0.12, -inf since."""
    with jax.ensure_compile_time_eval():
        return float(jax.lax.digamma(np.float32(0)))


def _digamma(reader: Reader, node: Node, at: Point) -> Expr:
    (x,) = _operands(reader, node, at)
    pole = reader.apply("eq", x, reader.const(0, x.dtype))
    return reader.apply("select", pole, reader.const(digamma_at_zero(), x.dtype), reader.apply("digamma", x))


def _rounded_as(narrow: Any) -> Rule:
    def rule(reader: Reader, node: Node, at: Point) -> Expr:
        (x,) = _operands(reader, node, at)
        return reader.apply("convert", reader.apply("convert", x, dtype=np.dtype(narrow)), dtype=x.dtype)

    return rule


_PRECISIONS: dict[tuple[int, int], Any] = {
    (8, 7): jax.numpy.bfloat16,
    (5, 10): np.float16,
    (8, 23): np.float32,
    (11, 52): np.float64,
}


def precision_of(node: Node) -> Any:
    """The dtype whose exponent and mantissa `reduce_precision` asks for, or None."""
    return _PRECISIONS.get((node.kwargs["exponent_bits"], node.kwargs["mantissa_bits"]))


def _reduce_precision(reader: Reader, node: Node, at: Point) -> Expr:
    return _rounded_as(precision_of(node))(reader, node, at)


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(reader: Reader, node: Node, at: Point) -> tuple[Expr, Expr]:
    """Random bits: 20 rounds of add, rotate, xor over a pair of words (Salmon et al., 2011)."""
    k0, k1, x, y = _operands(reader, node, at)
    u32, apply = x.dtype, reader.apply
    keys = (k0, k1, apply("xor", apply("xor", k0, k1), reader.const(0x1BD11BDA, u32)))
    x, y = apply("add", x, k0), apply("add", y, k1)
    for block in range(5):
        for bits in _ROTATIONS[block % 2]:
            x = apply("add", x, y)
            y = apply("xor", x, _rotate(reader, y, bits))
        x = apply("add", x, keys[(block + 1) % 3])
        y = apply("add", apply("add", y, keys[(block + 2) % 3]), reader.const(block + 1, u32))
    return x, y


def _rotate(reader: Reader, x: Expr, bits: int) -> Expr:
    left = reader.apply("shift_left", x, reader.const(bits, x.dtype))
    return reader.apply("or", left, reader.apply("shift_right_logical", x, reader.const(32 - bits, x.dtype)))


POINTWISE: dict[str, Rule] = dict.fromkeys(OF_JAX, _same_name) | {
    "convert_element_type": _convert,
    "digamma": _digamma,
    "bitcast_convert_type": _bitcast,
    "round": _round,
    "pow": _pow,
    "select_n": _select_n,
    "reduce_precision": _reduce_precision,
    "threefry2x32": _threefry,
}
