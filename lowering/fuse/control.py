"""Loops and branches as steps that hold the Schedules of their bodies.

    scan, while_loop   LoopStep     what is carried has two buffers, of which a step reads one and writes the other
    cond               BranchStep

Bodies keep no constants (`lifted`): the Schedule around them does, and hands them in like any operand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import GET_ATTR, Builder, Graph, Node, is_node, map_nodes
from dynacomp.lowering.fuse.in_place import Carried, carried
from dynacomp.lowering.fuse.schedule import BranchStep, ExternStep, LoopStep, Schedule
from dynacomp.lowering.primitives.control import bodies, is_control, map_bodies

BYTE = np.dtype(np.uint8)
Shape = tuple[tuple[sympy.Expr, ...], np.dtype]


def control_step(node: Node, operands: tuple[str, ...], results: tuple[str, ...],
                 plan: Callable[[Graph, Carried], Schedule]) -> tuple[LoopStep | BranchStep, dict[str, Shape]]:
    """The step of a loop or of branches, and the shapes of the scratch that it wants. `plan` schedules a body."""
    inner = tuple(plan(g, carried(node, g)) for g in bodies(node.kwargs))[::-1 if "condition" in node.kwargs else 1]
    given = dict(zip(node.args, operands))
    extern = ExternStep(alone(node), tuple(given.values()), results, f"`{node.target.name}` is left to XLA")
    arenas = {f"{node.name}_arena{k}": ((s.arena,), BYTE) for k, s in enumerate(inner)}
    if node.target.name == "cond":
        return BranchStep(operands, results, tuple(arenas), extern, inner), arenas
    p = node.kwargs
    condition = inner[1] if "condition" in p else None
    carries = p.get("carries", len(results))
    spares = {f"{node.name}_spare{k}": _spare(a, inner[0].outputs[k] in inner[0].in_place)
              for k, a in enumerate(node.aval[:carries])}
    step = LoopStep(operands, results, (*spares, *arenas), extern, p["consts"], carries, inner[0],
                    condition, sympy.sympify(p.get("length", 0)), p.get("reverse", False))
    return step, spares | arenas


def _spare(aval: Aval, in_place: bool) -> Shape:
    return ((sympy.Integer(0),) if in_place else tuple(map(sympy.sympify, aval.shape))), np.dtype(aval.dtype)


def alone(node: Node) -> Graph:
    """The node as a Graph of its own."""
    builder = Builder(node.name)
    inputs = {a: builder.placeholder(a.name, a.aval) for a in dict.fromkeys(node.args)}
    call = builder.call(node.target, map_nodes(node.args, inputs.__getitem__), dict(node.kwargs), node.aval)
    return builder.finish(tuple(picked(builder, call)))


def picked(builder: Builder, call: Node) -> list[Node]:
    """Every result of a call."""
    return [builder.call(operator.getitem, (call, k), {}, aval) for k, aval in enumerate(call.aval)]


# constants


def lifted(graph: Graph) -> Graph:
    """`graph` with the constants of its bodies among their operands, and every operand of theirs a Node."""
    if not any(map(is_control, graph.calls)):
        return graph
    builder = Builder(graph.name)
    new: dict[Node, Node] = {}
    for node in graph.nodes[:-1]:
        new[node] = _moved(graph, node, new, builder)
    done = builder.finish(map_nodes(graph.output, new.__getitem__))
    return replace(done, nodes=(*done.nodes[:-1], replace(done.nodes[-1], aval=graph.nodes[-1].aval)))


def _moved(graph: Graph, node: Node, new: Mapping[Node, Node], builder: Builder) -> Node:
    if node.op == GET_ATTR:
        return builder.const(graph.consts[node.target], node.aval, node.name)
    moved = replace(node, name=builder.fresh(node.name), args=map_nodes(node.args, new.__getitem__))
    return builder.append(_with_operands(moved, builder) if is_control(node) else moved)


def _with_operands(node: Node, builder: Builder) -> Node:
    """A loop or branches, its scalar operands and its bodies' constants as Nodes of the builder."""
    kwargs = map_bodies(node.kwargs, lifted)
    found = [(g.consts[n.target], n.aval) for g in bodies(kwargs) for n in g.nodes if n.op == GET_ATTR]
    consts = tuple(builder.const(value, aval) for value, aval in found)
    starts = iter(np.cumsum([0, *(len(g.consts) for g in bodies(kwargs))]))
    kwargs = map_bodies(kwargs, lambda g: _parameters(g, [c.aval for c in consts], int(next(starts))))
    args = [a if is_node(a) else builder.const(np.asarray(a), Aval((), a.dtype)) for a in node.args]
    first = 1 if node.target.name == "cond" else 0
    if "consts" in kwargs:
        kwargs["consts"] += len(consts)
    return replace(node, args=(*args[:first], *consts, *args[first:]), kwargs=kwargs)


def _parameters(graph: Graph, avals: Sequence[Any], start: int) -> Graph:
    """A body that takes `avals` before its own inputs; those from `start` on are its constants."""
    builder = Builder(graph.name)
    given = [builder.placeholder("const", a) for a in avals]
    own = iter(given[start:])
    new: dict[Node, Node] = {}
    for node in graph.nodes[:-1]:
        if node.op == GET_ATTR:
            new[node] = next(own)
        else:
            args = map_nodes(node.args, new.__getitem__)
            new[node] = builder.append(replace(node, name=builder.fresh(node.name), args=args))
    return builder.finish(map_nodes(graph.output, new.__getitem__))
