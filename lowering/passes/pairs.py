"""Complex numbers that a loop carries, and takes apart in each step, are carried as two arrays.

    before:  scan z: complex(u, v) from real(z), imag(z)         woven and taken apart in memory in each step
    after:   scan x, y: u, v from x, y                           then complex(x, y), once
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Graph, Node, node_at
from dynacomp.lowering.passes.core import Rule, copied, emit, is_getitem, rebuild, users_of
from dynacomp.lowering.passes.loops import Loop, everywhere, is_loop
from dynacomp.lowering.primitives.control import bodies, results
from dynacomp.lowering.primitives.ops import OPS

COMPLEX, PARTS = OPS["complex"], (OPS["real"], OPS["imag"])


def carry_parts(graph: Graph) -> Graph:
    """Loops that carry the parts of complex numbers."""
    return everywhere(lambda g: rebuild(g, _splitting()) if any(map(is_loop, g.calls)) else g, graph)


def _splitting() -> Rule:
    values: dict[Node, Mapping[int, Callable[[Node, Builder], Any]]] = {}

    def rule(node: Node, builder: Builder) -> Any:
        if is_getitem(node) and node.args[0] in values:
            return values[node.args[0]][node.args[1]](node, builder)
        found = _split(node) if is_loop(node) else []
        if not found:
            return None
        made = emit(builder, node, node.target, *_apart(Loop(node), found, builder))
        values[made] = _values(made, len(node.aval), found)
        return made

    return rule


def _split(node: Node) -> list[int]:
    """The carries that the bodies read, and make, only in parts."""
    loop = Loop(node)
    read = {g: users_of(g) for g in bodies(node.kwargs)}
    return [k for k in range(loop.carries)
            if _is_pair(loop.body.output[k]) and node_at(node, loop.consts + k) is not None
            and all(u.target in PARTS for g, users in read.items() for u in users[g.placeholders[loop.consts + k]])]


def _is_pair(node: Node) -> bool:
    parts = [*of_class(Node, node.args)] if node.target is COMPLEX else []
    return len(parts) == 2 and all(p.aval.shape == node.aval.shape for p in parts)


def _apart(loop: Loop, found: list[int], builder: Builder) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """The operands, parameters and results of the loop that carries parts."""
    node, places = loop.node, [loop.consts + k for k in found]
    args: list[Any] = []
    for place, operand in enumerate(node.args):
        args += _parts(node, operand, builder) if place in places else [operand]
    kwargs = dict(node.kwargs) | {"body": Closure(_taking_parts(loop.body, places, found))}
    if "condition" in kwargs:
        kwargs["condition"] = Closure(_taking_parts(kwargs["condition"].graph, places, []))
    if "carries" in kwargs:
        kwargs["carries"] += len(found)
    return tuple(args), kwargs, results(node.target.name, kwargs)


def _parts(like: Node, value: Node, builder: Builder) -> list[Node]:
    if _is_pair(value):
        return list(value.args)
    return [emit(builder, like, part, (value,), {}, _part_aval(value)) for part in PARTS]


def _part_aval(value: Node) -> Aval:
    return Aval(value.aval.shape, np.dtype(f"f{value.aval.dtype.itemsize // 2}"))


def _taking_parts(graph: Graph, places: list[int], outputs: list[int]) -> Graph:
    """A body whose parameters at `places`, and whose outputs, are parts."""
    builder, new = Builder(graph.name), dict[Node, Any]()
    apart: dict[Node, list[Node]] = {}
    for place, given in enumerate(graph.placeholders):
        if place in places:
            apart[given] = [builder.placeholder(given.name, _part_aval(given)) for _ in PARTS]
        else:
            new[given] = builder.placeholder(given.name, given.aval)
    for node in graph.nodes[:-1]:
        if node in new or node in apart:
            continue
        taken = node.target in PARTS and node.args[0] in apart
        new[node] = apart[node.args[0]][PARTS.index(node.target)] if taken else copied(builder, graph, node, new)
    made = [part for k, out in enumerate(graph.output) for part in (out.args if k in outputs else (out,))]
    return builder.finish(tuple(map(new.__getitem__, made)))


def _values(made: Node, count: int, found: list[int]) -> Mapping[int, Callable[[Node, Builder], Any]]:
    """How each result of the old loop is made of those of the new one."""
    def one(place: int) -> Callable[[Node, Builder], Any]:
        return lambda node, builder: emit(builder, node, node.target, (made, place), {}, made.aval[place])

    def pair(place: int) -> Callable[[Node, Builder], Any]:
        return lambda node, builder: emit(
            builder, node, COMPLEX, (one(place)(node, builder), one(place + 1)(node, builder)), {}, node.aval)

    places = [k + sum(f < k for f in found) for k in range(count)]
    return {k: (pair if k in found else one)(place) for k, place in enumerate(places)}
