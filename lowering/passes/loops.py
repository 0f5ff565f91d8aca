"""What a loop need not carry, compute or collect.

    trim_loops        results that nobody reads go, with what only they need; a carry that no step changes is
                      a constant; scalar constants are written into the body
    hoist_invariants  what a body computes from constants alone is computed once, before the loop
    add_to_parts      what a body adds to a part of a carry is added to that part: x + (zeros with a part set) reads
                      and writes all of x in each step. XLA does the same, bit for bit, signs of zeros included
    add_to_many       the same where parts may meet: what meets is summed in another order

All look into loops inside loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.graph import PLACEHOLDER, Builder, Closure, Graph, Node, is_node, map_nodes, nodes_in
from dynacomp.lowering.passes.core import Rule, as_node, dead_code, emit, is_getitem, rebuild
from dynacomp.lowering.primitives.control import bodies, is_control, map_bodies, results
from dynacomp.lowering.primitives.ops import LAYOUT, OPS, has_effects, op_kind
from dynacomp.lowering.sizes.indexing import total

KEPT = 1024
"""Elements of a value that is worth keeping though its operands are smaller."""


def everywhere(one: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """A pass over the bodies of a Graph's loops and branches, from the innermost out, and then over the Graph."""
    if any(map(is_control, graph.calls)):
        graph = _each_body(graph, lambda body: everywhere(one, body))
    return one(graph)


def _each_body(graph: Graph, fn: Callable[[Graph], Graph]) -> Graph:
    """`graph` with other bodies; itself where they stay."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        args = map_nodes(node.args, lambda n: new[n])
        kwargs = map_bodies(node.kwargs, fn) if is_control(node) else node.kwargs
        same = all(a is b for a, b in zip(args, node.args)) and all(kwargs[k] is node.kwargs[k] for k in kwargs)
        new[node] = node if same and node.op != "output" else replace(node, args=args, kwargs=kwargs)
    changed = any(k is not v for k, v in new.items() if k.op != "output")
    return replace(graph, nodes=tuple(new.values())) if changed else graph


def is_loop(node: Node) -> bool:
    return is_control(node) and "consts" in node.kwargs


# ---- what is not needed -----------------------------------------------------------------------


def trim_loops(graph: Graph) -> Graph:
    """Loops without results that nobody reads, without carries that never change, and without scalar constants."""
    return everywhere(_trim_loops, graph)


def _trim_loops(graph: Graph) -> Graph:
    if not any(map(is_loop, graph.calls)):
        return graph
    graph = dead_code(graph)  # results that nobody picks are no reason to keep anything
    read: dict[str, set[int]] = {}
    for node in graph.calls:
        if is_getitem(node):
            read.setdefault(node.args[0].name, set()).add(node.args[1])
    return rebuild(graph, _trimming(iter([read.get(n.name, set()) for n in graph.calls if is_loop(n)])))


def _trimming(read: Iterable[set[int]]) -> Rule:
    """A rule; `read` are the results that are read of each loop, in the order of the loops."""
    queue = iter(read)
    values: dict[Node, Mapping[int, Any]] = {}

    def rule(node: Node, builder: Builder) -> Any:
        if is_getitem(node) and node.args[0] in values:
            found = values[node.args[0]][node.args[1]]
            if isinstance(found, int):
                return emit(builder, node, node.target, (node.args[0], found), {}, node.aval)
            return as_node(builder, found)
        if not is_loop(node):
            return None
        loop = Loop(node)
        kept = loop.kept(next(queue))
        made = emit(builder, node, node.target, *loop.trimmed(kept))
        values[made] = loop.values(kept)
        return made

    return rule


@dataclass(frozen=True)
class Kept:
    """What stays of a loop: positions among its operands, in their new order (constants, carries, slices), and
    among its results; `scalars`: operands that the body gets as numbers."""

    consts: list[int]
    carries: list[int]
    slices: list[int]
    outputs: list[int]
    scalars: dict[int, Any]


@dataclass(frozen=True)
class Loop:
    """A scan or while_loop node, and its parts."""

    node: Node

    @property
    def consts(self) -> int:
        return int(self.node.kwargs["consts"])

    @property
    def body(self) -> Graph:
        return self.node.kwargs["body"].graph

    @property
    def carries(self) -> int:
        return int(self.node.kwargs.get("carries", len(self.body.output)))

    @property
    def steady(self) -> list[int]:
        """The carries that no step changes."""
        return [k for k in range(self.carries) if self.body.output[k] is self.body.placeholders[self.consts + k]]

    def kept(self, read: set[int]) -> Kept:
        """What stays where only the results `read` are wanted."""
        steady, needed = self.steady, self.needed(read)
        carries = [k for k in range(self.carries) if k not in steady and (k in read or self.consts + k in needed)]
        fixed = [i for i in (*range(self.consts), *(self.consts + k for k in steady)) if i in needed]
        scalars = {i: self.node.args[i] for i in fixed if isinstance(self.node.args[i], np.generic)}
        end = self.consts + self.carries
        return Kept([i for i in fixed if i not in scalars], carries,
                    [i for i in range(end, len(self.node.args)) if i in needed],
                    [*carries, *(j for j in range(self.carries, len(self.body.output)) if j in read)], scalars)

    def needed(self, read: set[int]) -> set[int]:
        """The positions of the operands that the results `read` and the condition need, by way of the carries."""
        wanted = set(read)
        while True:
            found = {i for graph, outs in self.wanted(wanted) for i in inputs_of(graph, outs)}
            carried = {i - self.consts for i in found if self.consts <= i < self.consts + self.carries}
            if carried <= wanted:
                return found
            wanted |= carried

    def wanted(self, outputs: set[int]) -> list[tuple[Graph, list[Node]]]:
        """The bodies, each with those of its outputs that count."""
        test = [(c.graph, list(c.graph.output)) for c in [self.node.kwargs.get("condition")] if c is not None]
        return [(self.body, [self.body.output[k] for k in sorted(outputs)]), *test]

    def trimmed(self, kept: Kept) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """The operands, parameters and results of what stays."""
        order = [*kept.consts, *(self.consts + k for k in kept.carries), *kept.slices]
        kwargs = dict(self.node.kwargs) | {"consts": len(kept.consts)}
        if "carries" in kwargs:
            kwargs["carries"] = len(kept.carries)
        kwargs["body"] = Closure(_selected(self.body, order, kept.scalars, kept.outputs))
        if "condition" in kwargs:
            kwargs["condition"] = Closure(_selected(kwargs["condition"].graph, order, kept.scalars, [0]))
        return tuple(self.node.args[i] for i in order), kwargs, results(self.node.target.name, kwargs)

    def values(self, kept: Kept) -> dict[int, Any]:
        """What each old result is: a position among the new ones, or a value."""
        found: dict[int, Any] = {k: self.node.args[self.consts + k] for k in self.steady}
        return found | {k: position for position, k in enumerate(kept.outputs)}


def inputs_of(graph: Graph, outputs: Iterable[Node]) -> list[int]:
    """The positions of the placeholders that some of a Graph's outputs depend on."""
    reached = ancestors(outputs)
    return [i for i, p in enumerate(graph.placeholders) if p in reached]


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """The nodes and all that they are computed from."""
    found, todo = set(), list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += nodes_in(node.args)
    return found


def _selected(graph: Graph, order: Sequence[int], scalars: Mapping[int, Any], outputs: Sequence[int]) -> Graph:
    """A body with some of its parameters, in another order, numbers for others, and some of its outputs."""
    builder, given = Builder(graph.name), graph.placeholders
    new: dict[Node, Any] = {given[i]: value for i, value in scalars.items()}
    new |= {given[i]: builder.placeholder(given[i].name, given[i].aval) for i in order}
    wanted = [graph.output[k] for k in outputs]
    reached = ancestors(wanted)
    for node in graph.nodes[:-1]:
        if node in reached and node.op != PLACEHOLDER:
            new[node] = _copied(graph, node, new, builder)
    return builder.finish(tuple(as_node(builder, x) for x in map(new.get, wanted)))


def _copied(graph: Graph, node: Node, new: Mapping[Node, Any], builder: Builder) -> Node:
    if node.op == "get_attr":
        return builder.const(graph.consts[node.target], node.aval, node.name)
    args = map_nodes(node.args, new.__getitem__)
    return builder.append(replace(node, name=builder.fresh(node.name), args=args))


# ---- what is always the same ------------------------------------------------------------------


def hoist_invariants(graph: Graph) -> Graph:
    """What loops compute from constants alone, computed before them."""
    return everywhere(_hoist_invariants, graph)


def _hoist_invariants(graph: Graph) -> Graph:
    return _trim_loops(rebuild(graph, _hoisting)) if any(map(is_loop, graph.calls)) else graph


def _hoisting(node: Node, builder: Builder) -> Any:
    if not is_loop(node):
        return None
    count = int(node.kwargs["consts"])
    moved = {id(g): _invariants(g, count) for g in bodies(node.kwargs)}
    if not any(moved.values()):
        return None
    made: list[Any] = []
    for graph in bodies(node.kwargs):
        outside: dict[Node, Any] = dict(zip(graph.placeholders, node.args))
        made += [_outside(graph, n, outside, builder) for n in moved[id(graph)]]
    starts, avals = iter(_starts([len(m) for m in moved.values()])), [n.aval for n in made]
    kwargs = map_bodies(node.kwargs, lambda g: _taking(g, count, avals, moved[id(g)], next(starts)))
    args = (*node.args[:count], *made, *node.args[count:])
    return emit(builder, node, node.target, args, kwargs | {"consts": count + len(made)}, node.aval)


def _starts(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:k]) for k in range(len(counts))]


def _invariants(graph: Graph, consts: int) -> list[Node]:
    """The nodes that depend on constants alone, are worth keeping, and are read by what is not of that kind."""
    steady = set(graph.placeholders[:consts])
    worth: list[Node] = []
    for node in graph.calls:
        operands = list(nodes_in(node.args))
        if operands and not has_effects(node) and not is_control(node) and steady.issuperset(operands):
            steady.add(node)
            if _worth_keeping(node):
                worth.append(node)
    inside = [n for n in graph.nodes if n not in worth]
    read = {o for n in inside for o in nodes_in((n.args, dict(n.kwargs)))}
    return [n for n in worth if n in read]


def _worth_keeping(node: Node) -> bool:
    """Is it work, and no bigger than what it is made of?"""
    if op_kind(node) in ("", LAYOUT) or isinstance(node.aval, tuple):
        return False
    sizes = [total(a.aval.shape) for a in of_class(Node, node.args)]
    return node.target.name != "convert_element_type" and total(node.aval.shape) <= max(KEPT, *sizes)


def _outside(graph: Graph, node: Node, outside: dict[Node, Any], builder: Builder) -> Any:
    """A node of a body, written before the loop with all that it needs."""
    if node not in outside:
        for operand in nodes_in(node.args):
            _outside(graph, operand, outside, builder)
        outside[node] = _copied(graph, node, outside, builder)
    return outside[node]


def _taking(graph: Graph, count: int, avals: Sequence[Any], moved: Sequence[Node], start: int) -> Graph:
    """A body with more constants; those from `start` on are the values of the nodes `moved`."""
    builder = Builder(graph.name)
    new: dict[Node, Any] = {}
    given = graph.placeholders
    new |= {p: builder.placeholder(p.name, p.aval) for p in given[:count]}
    more = [builder.placeholder("const", a) for a in avals]
    new |= {p: builder.placeholder(p.name, p.aval) for p in given[count:]}
    new |= dict(zip(moved, more[start:]))
    for node in graph.nodes[:-1]:
        if node not in new:
            new[node] = _copied(graph, node, new, builder)
    return builder.finish(tuple(map(new.__getitem__, graph.output)))


# ---- what is added to a part ------------------------------------------------------------------


def add_to_parts(graph: Graph) -> Graph:
    """Loops that add to one part of what they carry, and leave the rest."""
    return _each_body(graph, lambda body: rebuild(add_to_parts(body), _adding(_is_one_part)))


def add_to_many(graph: Graph) -> Graph:
    """Loops that add to many parts of what they carry, and leave the rest."""
    return _each_body(graph, lambda body: rebuild(add_to_many(body), _adding(bool)))


def _is_one_part(updates: Sequence[Node]) -> bool:
    """Does no element meet two updates?"""
    return len(updates) == 1 and (updates[0].target is OPS["dynamic_update_slice"] or _never_meet(updates[0]))


def _never_meet(scatter: Node) -> bool:
    batch = scatter.kwargs["dimension_numbers"].scatter_indices_batching_dims
    steps = [n for d, n in enumerate(scatter.args[1].aval.shape[:-1]) if d not in batch]
    return scatter.kwargs["unique_indices"] or total(steps) == 1


def _adding(wanted: Callable[[Sequence[Node]], bool]) -> Rule:
    """carry + scatter_add(zeros, i, part)  →  scatter_add(carry, i, part), and so for slices and sums of such."""
    carried: set[Node] = set()

    def rule(node: Node, builder: Builder) -> Any:
        if node.target is not OPS["add"]:
            return None
        for carry, sparse in (node.args, node.args[::-1]):
            of_body = is_node(carry) and (carry.op == PLACEHOLDER or carry in carried)
            if of_body and (updates := _updates(sparse)) and wanted(updates):
                for update in updates:
                    carry = _added(carry, update, builder)
                carried.add(carry)
                return carry
        return None

    return rule


def _updates(value: Any) -> Sequence[Node] | None:
    """What a value is the sum of, if of nothing but zeros with parts put there."""
    if isinstance(value, np.generic):
        return [] if value == 0 else None
    if value.target is OPS["broadcast_in_dim"]:
        return _updates(value.args[0]) if isinstance(value.args[0], np.generic) else None
    if value.target in (OPS["dynamic_update_slice"], OPS["scatter_add"]):
        return [value] if _updates(value.args[0]) == [] else None
    if value.target is not OPS["add"]:
        return None
    first, second = map(_updates, value.args)
    return None if first is None or second is None else [*first, *second]


def _added(carry: Node, update: Node, builder: Builder) -> Node:
    """`carry` and what an update puts into zeros."""
    if update.target is OPS["scatter_add"]:
        return emit(builder, update, update.target, (carry, *update.args[1:]), dict(update.kwargs), carry.aval)
    _, part, *starts = update.args
    sizes = {"slice_sizes": part.aval.shape}
    old = emit(builder, update, OPS["dynamic_slice"], (carry, *starts), sizes, part.aval)
    new = emit(builder, update, OPS["add"], (old, part), {}, part.aval)
    return emit(builder, update, update.target, (carry, new, *starts), dict(update.kwargs), carry.aval)
