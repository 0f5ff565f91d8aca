"""Is a Graph well formed? Run between passes, it finds the pass that broke something.

`verify(graph)` checks order (placeholders first, one output last, definitions before uses), names
(unique identifiers), constants (present, of the shape and dtype that they claim), arguments, and the
graphs inside Closures. `verify(graph, infer)` also recomputes every call's Aval and compares shape
and dtype (weak types are the output's alone): `lowering.primitives.ops.infer` for primitive Graphs.

    >>> lost = Node("placeholder", "x")
    >>> [fault for _, fault in faults(Graph((Node("output", "output", args=((lost,),)),)))]
    ['uses %x, which is not defined before it']
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from typing import Any

import jax
import sympy

from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.avals import is_aval
from dynacomp.capture.graph.graph import (
    CALL_FUNCTION,
    CALL_GRAPH,
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Graph,
    Node,
    closures_in,
    nodes_in,
)

Infer = Callable[[Node], Any]


class GraphError(AssertionError):
    """A Graph breaks its own rules: a defect of the pass that made it, never of the user's code."""


def verify(graph: Graph, infer: Infer | None = None) -> None:
    """Raise GraphError at the first thing that is wrong; see the module's docstring."""
    for node, fault in faults(graph, infer):
        line = " ({}:{} in {})".format(*node.where[-1]) if node.where else ""
        raise GraphError(f"graph {graph.name!r}, %{node.name}{line}: {fault}")


def faults(graph: Graph, infer: Infer | None = None) -> Iterator[tuple[Node, str]]:
    """Every (node, what is wrong with it)."""
    if not graph.nodes or graph.nodes[-1].op != OUTPUT:
        last = graph.nodes[-1] if graph.nodes else Node(OUTPUT, "output")
        yield last, "a graph ends with an output node"
    defined: set[Node] = set()
    names: set[str] = set()
    for node in graph.nodes:
        for check in (_order, _naming, _const, _aval, _target):
            yield from ((node, fault) for fault in check(graph, node, defined, names))
        for closure in closures_in((node.args, dict(node.kwargs))):
            yield from faults(closure.graph, infer)
        if infer and node.op in (CALL_FUNCTION, CALL_GRAPH):
            yield from ((node, fault) for fault in _compare(node, infer))
        defined.add(node)
        names.add(node.name)


def _order(graph: Graph, node: Node, defined: set[Node], names: set[str]) -> Iterator[str]:
    for used in nodes_in((node.args, dict(node.kwargs))):
        if used not in defined:
            yield f"uses %{used.name}, which is not defined before it"
    if node.op == PLACEHOLDER and any(d.op != PLACEHOLDER for d in defined):
        yield "a placeholder stands after other nodes"
    if node.op == OUTPUT and node is not graph.nodes[-1]:
        yield "nodes follow the output"


def _naming(graph: Graph, node: Node, defined: set[Node], names: set[str]) -> Iterator[str]:
    if node.name in names:
        yield f"a second node is called {node.name!r}"
    if not node.name.isidentifier() or keyword.iskeyword(node.name):
        yield f"{node.name!r} is no Python identifier"


def _const(graph: Graph, node: Node, defined: set[Node], names: set[str]) -> Iterator[str]:
    if node.op != GET_ATTR:
        return
    if node.target not in graph.consts:
        yield f"no constant is called {node.target!r}; there are {sorted(graph.consts)}"
    elif is_aval(node.aval):
        value = graph.consts[node.target]
        if tuple(value.shape) != node.aval.shape or value.dtype != node.aval.dtype:
            yield f"claims {node.aval}, but the constant is {value.dtype}{list(value.shape)}"


def _aval(graph: Graph, node: Node, defined: set[Node], names: set[str]) -> Iterator[str]:
    if node.op == OUTPUT:
        if len(node.args) != 1:
            yield f"an output has one argument, a pytree; this has {len(node.args)}"
    elif node.aval is None:
        yield "has no Aval"


def _target(graph: Graph, node: Node, defined: set[Node], names: set[str]) -> Iterator[str]:
    if node.op not in (PLACEHOLDER, GET_ATTR, CALL_FUNCTION, CALL_GRAPH, OUTPUT):
        yield f"{node.op!r} is no kind of node"
    elif node.op in (CALL_FUNCTION, CALL_GRAPH):
        has_body = any(True for _ in closures_in((node.args, dict(node.kwargs))))
        if not callable(node.target):
            yield f"its target {node.target!r} cannot be called"
        if has_body != (node.op == CALL_GRAPH):
            yield f"is a {node.op}, but its arguments {'hold' if has_body else 'hold no'} Closures"


def _compare(node: Node, infer: Infer) -> Iterator[str]:
    try:
        found = infer(node)
    except ours(Exception) as e:
        yield f"its arguments do not fit {node.target!r}: {type(e).__name__}: {e}"
        return
    if is_aval(found) and found == node.aval:
        return
    claimed, actual = _leaves(node.aval), _leaves(found)
    if len(claimed) != len(actual) or not all(map(_equal, claimed, actual)):
        yield f"claims {node.aval}, but {node.target!r} gives {found}"


def _leaves(aval: Any) -> list[Any]:
    return jax.tree.leaves(aval, is_leaf=is_aval)


def _equal(a: Any, b: Any) -> bool:
    if not (is_aval(a) and is_aval(b)):
        return a is b or bool(a == b)
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(map(same_size, a.shape, b.shape))


def same_size(a: Any, b: Any) -> bool:
    """Equal as ints, JAX dims or SymPy (compared after expansion)."""
    if isinstance(a, sympy.Expr) or isinstance(b, sympy.Expr):
        return bool(sympy.expand(sympy.sympify(a) - b) == 0)
    return bool(a == b)
