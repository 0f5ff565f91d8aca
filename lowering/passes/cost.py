"""What a primitive Graph costs: operations and bytes, by Op, for known sizes or as expressions of the unknown ones.

`flops` are additions, multiplications, comparisons, ... on numbers of any dtype; a function such as `exp` is one.
`bytes` are what each Op reads and writes when it runs alone, arrays from and to memory: fusion saves most of them.

    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> print(count(lower_function(lambda x, w: x @ w + 1, np.ones((4, 8), np.float32), np.ones((8, 2), np.float32))))
    136 flops, 288 bytes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Graph, Node, is_node, node_at, nodes_in
from dynacomp.lowering.passes.core import is_getitem
from dynacomp.lowering.primitives.control import bodies
from dynacomp.lowering.primitives.ops import (
    CONTROL,
    EXTERN,
    GATHER,
    LAYOUT,
    POINTWISE,
    REDUCTION,
    SCAN,
    SCATTER,
    Op,
    op_kind,
)
from dynacomp.lowering.primitives.translate import translate
from dynacomp.lowering.sizes.dims import substitute

Number = Any  # an int, or a SymPy expression of sizes


@dataclass(frozen=True)
class Cost:
    """Operations and bytes; `by_op` has a Cost for each Op, dearest first."""

    flops: Number = 0
    bytes: Number = 0
    by_op: dict[str, Cost] = field(default_factory=dict, compare=False)

    def at(self, **sizes: int) -> Cost:
        """The same with sizes put in by name."""
        put = lambda n: substitute(n, sizes)
        return Cost(put(self.flops), put(self.bytes), {k: c.at(**sizes) for k, c in self.by_op.items()})

    def __str__(self) -> str:
        return f"{self.flops} flops, {self.bytes} bytes"


def count(graph: Graph) -> Cost:
    """The Cost of a primitive Graph."""
    rows: dict[str, list[tuple[Number, Number]]] = {}
    for node in graph.calls:
        if not is_getitem(node):
            rows.setdefault(node.target.name, []).append((operations(node), traffic(node)))
    costs = {name: Cost(_sum(f for f, _ in found), _sum(b for _, b in found)) for name, found in rows.items()}
    dearest = sorted(costs.items(), key=lambda row: -float(_typical(row[1].flops)))
    return Cost(_sum(c.flops for c in costs.values()), _sum(c.bytes for c in costs.values()), dict(dearest))


def operations(node: Node) -> Number:
    """The flops of one call."""
    op: Op = node.target
    return _FLOPS.get(op.name, _BY_KIND.get(op.kind, _nothing))(node)


def traffic(node: Node) -> Number:
    """The bytes that one call reads (each array once) and writes."""
    read = dict.fromkeys(n for n in nodes_in((node.args, dict(node.kwargs))))
    return _sum(_bytes(a) for n in (*read, node) for a in _avals(n))


def _nothing(node: Node) -> Number:
    return 0


def _each_result(node: Node) -> Number:
    return _size(_avals(node)[0])


def _each_operand(node: Node) -> Number:
    return _elements(node, 0)


def _elements(node: Node, k: int) -> Number:
    """Of the k-th operand: a constant is one number."""
    value = node_at(node, k)
    return 1 if value is None else _size(_avals(value)[0])


def _product(node: Node) -> Number:
    left = node.args[0].aval.shape
    (contracted, _), _ = node.kwargs["dimension_numbers"]
    return 2 * _each_result(node) * _volume(left[d] for d in contracted)


def _convolution(node: Node) -> Number:
    """Two for each element of the kernel that makes an element of the result, padding counted as if it were data."""
    kernel, spec = node.args[1].aval.shape, node.kwargs["dimension_numbers"].rhs_spec
    return 2 * _each_result(node) * _volume(kernel[d] for d in spec[1:])


def _window(node: Node) -> Number:
    return _each_result(node) * _volume(node.kwargs["window_dimensions"])


def _sort(node: Node) -> Number:
    """Comparisons: n log2 n along the sorted dimension."""
    shape = node.args[0].aval.shape
    n = sympy.sympify(shape[node.kwargs.get("dimension", -1)])
    return _plain(_volume(shape) * sympy.ceiling(sympy.log(n, 2)))


def _updates(node: Node) -> Number:
    return _elements(node, 2)


def _extern(node: Node) -> Number:
    """A jaxpr that XLA runs: what its primitives cost, a loop's body once."""
    return count(translate(node.kwargs["jaxpr"])).flops if _is_open(node) else 0


def _control(node: Node) -> Number:
    """A scan's body as often as it runs, a `while`'s and its condition's once, the dearest of several branches."""
    each = [count(body).flops for body in bodies(node.kwargs)]
    if node.target.name == "cond":
        return max(each, key=lambda n: float(_typical(n)))
    return _plain(sympy.expand(sum(each) * sympy.sympify(node.kwargs.get("length", 1))))


def _is_open(node: Node) -> bool:
    """Whether translating the jaxpr gives anything but the same call again."""
    inner = translate(node.kwargs["jaxpr"]).calls
    return all(op_kind(n) != EXTERN for n in inner)


_BY_KIND: dict[str, Callable[[Node], Number]] = {
    POINTWISE: _each_result, REDUCTION: _each_operand, SCAN: _each_operand, LAYOUT: _nothing, GATHER: _nothing,
    SCATTER: _updates, EXTERN: _extern, CONTROL: _control,
}
_FREE = "convert_element_type bitcast_convert_type real imag copy".split()
_FLOPS: dict[str, Callable[[Node], Number]] = {
    **dict.fromkeys(_FREE, _nothing),
    "dot_general": _product, "conv_general_dilated": _convolution, "sort": _sort, "top_k": _each_operand,
    "scatter": _nothing, "select_and_scatter_add": _each_operand,
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), _window),
}


def _avals(value: Any) -> tuple[Aval, ...]:
    if not is_node(value):
        return ()
    return value.aval if isinstance(value.aval, tuple) else (value.aval,)


def _size(aval: Aval) -> Number:
    return _volume(aval.shape)


def _bytes(aval: Aval) -> Number:
    return _size(aval) * np.dtype(aval.dtype).itemsize


def _volume(dims: Any) -> Number:
    total: Number = 1
    for d in dims:
        total = total * d
    return _plain(total)


def _sum(numbers: Any) -> Number:
    return _plain(sympy.expand(sympy.Add(*map(sympy.sympify, numbers))))


def _plain(number: Any) -> Number:
    return int(number) if isinstance(number, sympy.Integer) else number


def _typical(number: Any) -> Any:
    return number.subs(dict.fromkeys(number.free_symbols, 100)) if isinstance(number, sympy.Expr) else number
