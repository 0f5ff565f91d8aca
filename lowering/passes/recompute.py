"""What a step keeps for later, and what it computes again: less memory where much would be kept for long.

A training step in one Graph keeps the values of its forward pass until its backward pass reads them. At the place
where most bytes are alive, a minimum cut decides for every earlier value that later nodes read whether it is kept
(its bytes), or computed again from others that are kept (what its operation costs, in the same unit). Inputs and
outputs are there anyway. What is computed again stands before its first late reader, and reads through `again(x,
after)`: x, but not before `after` is there, so that fusion does not bring it back to where it was computed first.

Graphs that keep little (SMALL bytes) stay as they are. `budget` is a number from 0 (compute again all that is not a
product or the like) to 1 (nothing). Sizes that are unknown count as GROWTH times those of the call at hand.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx

from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Builder, Graph, Node, map_nodes, nodes_in
from dynacomp.lowering.autodiff.cut import END, START, components
from dynacomp.lowering.kernel_ir.scalars import MEDIUM, SCALARS
from dynacomp.lowering.passes.core import copied, dead_code, finish
from dynacomp.lowering.primitives.ops import LAYOUT, OPS, POINTWISE, REDUCTION, TEMPLATE, has_effects
from dynacomp.lowering.sizes.indexing import total

Size = Callable[[Node], int]

SMALL = 1 << 24
BUDGET = 0.5
DEAR = frozenset(name for name, row in SCALARS.items() if row.cost >= MEDIUM)
NEVER = frozenset({"threefry2x32", "bessel_i0e", "bessel_i1e", "iota_2x32_shape"})
CHEAP_PRICE, DEAR_PRICE, FOLD_PRICE = 0.02, 0.2, 0.3  # of computing a byte again, against keeping it
MOST_NODES = 20_000
GROWTH = 2


def recompute(graph: Graph, budget: float = BUDGET, at_hand: Sequence[tuple[str, int]] = ()) -> Graph:
    """The Graph with what is cheaper computed again than kept; itself where that saves nothing. at_hand: the values
    that its unknown sizes have in the call for which it is compiled, by name."""
    graph, given = dead_code(graph), graph
    of = functools.partial(size, sizes={name: GROWTH * n for name, n in at_hand})
    nodes = graph.nodes[:-1]
    place = {n: i for i, n in enumerate(nodes)}
    at = crowded(place, of)
    if at is None or budget >= 1 or len(nodes) > MOST_NODES:
        return given
    free = {*graph.output, *(n for n in nodes if n.op in (PLACEHOLDER, GET_ATTR))}
    wanted = list(dict.fromkeys(x for n in nodes[at:] for x in operands(n) if place[x] < at and x not in free))
    again = cheaper_again(wanted, free | trunk(nodes[:at], place), free, budget / (1 - budget), of)
    return rewritten(graph, place, at, again) if again else given


def operands(node: Node) -> Iterable[Node]:
    return nodes_in((node.args, dict(node.kwargs)))


def size(node: Node, sizes: Mapping[str, int] | None = None) -> int:
    """Bytes of an array; 0 for what has none of its own. sizes: values of unknown ones, else a typical one counts."""
    aval = node.aval
    if isinstance(aval, tuple) or node.op == GET_ATTR:
        return 0
    return total(aval.shape, sizes) * aval.dtype.itemsize


def crowded(place: Mapping[Node, int], size: Size) -> int | None:
    """Where most bytes are alive that some node has computed; None where they are few."""
    change = [0] * (len(place) + 1)
    last: dict[Node, int] = {}
    for node, i in place.items():
        last.update(dict.fromkeys(operands(node), i))
    for node, end in last.items():
        if node.op not in (PLACEHOLDER, GET_ATTR) and kind(node) != LAYOUT:
            change[place[node]] += size(node)
            change[end] -= size(node)
    alive, most, at = 0, SMALL, None
    for i, step in enumerate(change):
        alive += step
        if alive > most:
            most, at = alive, i + 1
    return at


def kind(node: Node) -> str:
    return getattr(node.target, "kind", "")


def price(node: Node, size: Size) -> float:
    """What computing a node again costs, in bytes kept; infinite for what is never done again."""
    name = getattr(node.target, "name", "")
    if name in NEVER or isinstance(node.aval, tuple) or has_effects(node):
        return math.inf
    if kind(node) == LAYOUT:
        return 0.0
    if kind(node) == POINTWISE:
        return size(node) * (DEAR_PRICE if name in DEAR else CHEAP_PRICE)
    if kind(node) == REDUCTION and name.startswith("reduce_") and "window" not in name:
        return sum(map(size, operands(node))) * FOLD_PRICE
    return math.inf


def is_product(node: Node) -> bool:
    return kind(node) == TEMPLATE


def trunk(nodes: Sequence[Node], place: Mapping[Node, int]) -> set[Node]:
    """What is read on both sides of a product, as the sums of a residual network are: who computes these again
    computes the whole network again."""
    before = [0, *itertools.accumulate(map(is_product, nodes))]
    return {x for n in nodes for x in operands(n) if before[place[n]] > before[place[x] + 1]}


def cheaper_again(wanted: Iterable[Node], given: set[Node], free: set[Node], weight: float, size: Size) -> set[Node]:
    """The nodes that the cut has computed again. given: those that never are; free: those that are there anyway."""
    graph, seen, waiting = networkx.DiGraph(), set[Node](), list(wanted)
    for node in waiting:
        graph.add_edge((node, "out"), END)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        cost = math.inf if node in given else price(node, size)
        graph.add_edge((node, "in"), (node, "out"), capacity=0.0 if node in free else size(node) + 1.0)
        if cost == math.inf:
            graph.add_edge(START, (node, "in"))
            continue
        graph.add_edge(START, (node, "in"), capacity=cost * weight)
        for operand in operands(node):
            graph.add_edge((operand, "out"), (node, "in"))
            waiting.append(operand)
    found: set[Node] = set()
    for part in components(graph):
        _, (_, far) = networkx.minimum_cut(part, START, END, flow_func=networkx.algorithms.flow.boykov_kolmogorov)
        found |= {n[0] for n in far if n not in (START, END) and n[1] == "in"}
    return found


def rewritten(graph: Graph, place: Mapping[Node, int], at: int, again: set[Node]) -> Graph:
    """The Graph whose nodes from `at` on read new copies of the nodes `again`."""
    builder, new, late = Builder(graph.name), dict[Node, Any](), dict[Node, Any]()
    after: Any = None

    def held(node: Node) -> Any:
        if node.aval.dtype.kind == "c":  # no value in a loop: what reads its parts is held by what else it reads
            return new[node]
        key = OPS["again"]
        return builder.call(key, (new[node], after), {}, node.aval, node.where)

    def copy(node: Node) -> Any:
        if node not in late:
            args = map_nodes(node.args, lambda x: copy(x) if x in again else held(x))
            late[node] = builder.append(replace(node, name=builder.fresh(node.name), args=args))
        return late[node]

    for node, i in place.items():
        early = [x for x in operands(node) if x in again and place[x] < at] if i >= at and after is not None else []
        new[node] = copied(builder, graph, node, {**new, **{x: copy(x) for x in early}} if early else new)
        if i >= at and is_product(node) and not isinstance(node.aval, tuple):
            after = new[node]
    return finish(builder, tuple(map(new.__getitem__, graph.output)), graph.nodes[-1].aval)
