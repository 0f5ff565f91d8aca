"""What a loop carries and changes in parts is changed where it is.

    before:  y = x with a few elements set; the step reads one buffer and writes all of another
    after:   the step stores those elements into the one buffer

A carry qualifies when its next value is a chain of updates (`x.at[i].set`, `dynamic_update_slice`, a loop
inside that does the same) of the one before, and whatever else reads a value in this chain is needed for
the next update of it: then it is computed before that update, into memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dynacomp.capture.graph.graph import Graph, Node, is_node, nodes_in
from dynacomp.lowering.fuse.items import op_name
from dynacomp.lowering.primitives.control import bodies, is_control
from dynacomp.lowering.rules.reader import shape_of
from dynacomp.lowering.rules.scatter import STORES
from dynacomp.lowering.sizes.indexing import total

Carried = Sequence[tuple[int, int]]
"""(input, output): which of a body's inputs and outputs are one array's values before and after a step."""
LEAST = 64
"""Smaller arrays are copied: registers hold them."""
_VIEWS = ("reshape", "transpose", "broadcast_in_dim")


def carried(node: Node, body: Graph) -> Carried:
    """What a loop carries, for its body."""
    p = node.kwargs
    if "consts" not in p or body is not bodies({"body": p["body"]})[0]:
        return ()
    return [(p["consts"] + k, k) for k in range(p.get("carries", len(body.output)))]


def updates_in_place(graph: Graph, users: Mapping[Node, list[Node]], carried: Carried,
                     outside: Mapping[Node, str | None]) -> dict[Node, Node]:
    """The updates of a body that are done in place: update → the last one of its chain."""
    found: dict[Node, Node] = {}
    inputs, outputs = graph.placeholders, graph.output
    for before, after in carried:
        chain = _chain(inputs[before], outputs[after], outside)
        alone = not any(source(link) in outputs for link in chain)
        if chain and alone and total(shape_of(inputs[before])) >= LEAST and all(_safe(n, users) for n in chain):
            found |= dict.fromkeys(chain, outputs[after])
    return found


def _chain(first: Node, last: Node, outside: Mapping[Node, str | None]) -> list[Node]:
    """The updates from one value to the other, first ones first; none where something else is between."""
    chain: list[Node] = []
    while last is not first:
        before = source(last) if last in outside and not outside[last] else None
        if not is_node(before):
            return []
        chain.insert(0, last)
        last = before
    return chain


def source(update: Node) -> Any:
    """The array that a node changes in part: an update's operand, or what a loop inside takes, changes in place
    and gives; None for any other node."""
    if op_name(update) in STORES:
        return update.args[0]
    if op_name(update) != "getitem" or not is_control(update.args[0]):
        return None
    loop, result = update.args
    for body in bodies(loop.kwargs):
        for before, after in carried(loop, body):
            if after == result and updates_in_place(body, users_in(body), [(before, after)], dict.fromkeys(body.calls)):
                return loop.args[before]
    return None


def users_in(graph: Graph) -> dict[Node, list[Node]]:
    """Which nodes take each node."""
    users: dict[Node, list[Node]] = {n: [] for n in graph.nodes}
    for node in graph.nodes:
        for operand in dict.fromkeys(nodes_in((node.args, dict(node.kwargs)))):
            users[operand].append(node)
    return users


def _safe(part: Node, users: Mapping[Node, list[Node]]) -> bool:
    """Is all that reads the array before an update done by then?"""
    before, update = source(part), part.args[0] if op_name(part) == "getitem" else part
    if sum(n is before for n in nodes_in(update.args)) != 1:
        return False
    needed = _ancestors(update)
    return all(r is update or r in needed for r in readers(before, users))


def readers(node: Node, users: Mapping[Node, list[Node]]) -> Iterator[Node]:
    """What reads a node's elements, through views of it too."""
    for user in users[node]:
        yield user
        if op_name(user) in _VIEWS:
            yield from readers(user, users)


def _ancestors(node: Node) -> set[Node]:
    found: set[Node] = set()
    todo = [node]
    while todo:
        for operand in nodes_in((todo.pop().args,)):
            if operand not in found:
                found.add(operand)
                todo.append(operand)
    return found


def kept_places(in_place: Mapping[Node, Node]) -> dict[str, str]:
    """`Schedule.in_place`: each last update's buffer → the input's."""
    return {last.name: source(node).name for node, last in in_place.items() if source(node) not in in_place}
