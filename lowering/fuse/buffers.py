"""Which nodes of a primitive Graph have buffers, and which buffer each value is in.

Templates, loops and XLA read buffers; so does whoever reads a value that is dear to compute twice. All other nodes are
inlined into their readers. A reshape has no buffer of its own: it reads that of what it reshapes (a *view*). Templates
read through strides, and what has none that fit is copied for them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.graph import (
    CALL_FUNCTION,
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Graph,
    Node,
    is_node,
    node_at,
    nodes_in,
)
from dynacomp.lowering.fuse.in_place import Carried, readers, source, updates_in_place, users_in
from dynacomp.lowering.fuse.items import choose_realised, is_scatter, op_name
from dynacomp.lowering.primitives.control import is_control
from dynacomp.lowering.primitives.ops import OPS, Op
from dynacomp.lowering.rules.gather import GATHERS
from dynacomp.lowering.rules.layout import LAYOUT
from dynacomp.lowering.rules.pairs import PARTS
from dynacomp.lowering.rules.pointwise import POINTWISE
from dynacomp.lowering.rules.reader import INT32, Reader, dtype_of, shape_of
from dynacomp.lowering.rules.scatter import SINGLE
from dynacomp.lowering.rules.support import why_not
from dynacomp.lowering.rules.templates import TEMPLATE_RULES, fitting_strides, is_widening, row_major, view_of
from dynacomp.lowering.rules.window import WINDOW_RULES, choice_name

RULES = POINTWISE | LAYOUT | GATHERS | SINGLE | WINDOW_RULES | PARTS


class Buffers:
    """The buffers of one Graph.

    outside: why a node is left to XLA, or None. views: the buffer of an output that reshapes another value; storage:
    the buffer in which a value is kept, where that is another's; shapes: of all buffers by name, those of a step's own
    among them; operand_views: what a template reads, and with which strides; copies: what it needs copied before.
    """

    def __init__(self, graph: Graph, carried: Carried = ()) -> None:
        self.graph = graph
        self.users = users_in(graph)
        self.outside: dict[Node, str | None] = {}
        for node in graph.calls:  # a getitem goes where its source goes
            self.outside[node] = why_not(node) if op_name(node) != "getitem" else self.outside[node.args[0]]
        self.templates = {n for n in graph.calls if self._is_template(n)}
        self.controls = {n for n in graph.calls if is_control(n) and not self.outside[n]}
        self.in_place = updates_in_place(graph, self.users, carried, self.outside)
        self.reader = Reader(RULES, set())
        self.required: set[str] = set()
        self.shapes: dict[str, tuple[tuple[sympy.Expr, ...], np.dtype]] = {}
        self.views: dict[str, str] = {}
        self.storage = {node.name: last.name for node, last in self.in_place.items()}
        self.copies: dict[Node, list[Node]] = {}
        self.operand_views: dict[Node, tuple[tuple[str, Any], ...]] = {}
        self.by_name = {n.name: n for n in graph.nodes}
        self.decide()
        self.fill_shapes()

    def _is_template(self, node: Node) -> bool:
        rule = TEMPLATE_RULES.get(op_name(node))
        return rule is not None and not self.outside[node] and rule.wants(node)

    def loopable(self, node: Node) -> bool:
        """Computed by loops: not a step of its own (nor a part of one's result), not XLA's, not an input."""
        source = node.args[0] if op_name(node) == "getitem" and node in self.outside else node
        own = source in self.templates or source in self.controls
        return node in self.outside and not self.outside[node] and not own

    def require(self, node: Any) -> None:
        """`node` must have a buffer: itself, or the one that it only reshapes."""
        if is_node(node):
            self.required.add(self.root(node).name)

    def root(self, node: Node) -> Node:
        """The node whose buffer holds this one's elements: reshapes have none of their own."""
        while op_name(node) == "reshape" and self.loopable(node) and node.op not in (PLACEHOLDER, GET_ATTR):
            node = node.args[0]
        return node

    def layout_root(self, node: Node, widens: bool = False) -> Node:
        """The node under all ops that a strided view may stand for, and under conversions that a template makes."""
        while self.loopable(node):
            below = node_at(node)
            through = op_name(node) in ("reshape", "transpose", "broadcast_in_dim", "again")
            if below is None or not (through or widens and is_widening(node)):
                break
            node = below
        return node

    def decide(self) -> None:
        """Which nodes get buffers."""
        for node in self.graph.nodes:
            if node in self.templates:
                widens = TEMPLATE_RULES[op_name(node)].widens
                self.required |= {self.layout_root(operand, widens).name for operand in node.args}
            elif node in self.controls or node.op != OUTPUT and self.outside.get(node):
                for operand in nodes_in((node.args, dict(node.kwargs))):
                    self.require(operand)
            if op_name(node) == "again":
                self.required.add(self.layout_root(node).name)
        for node in self.graph.output:
            self.require_output(node)
        for node in self.in_place:
            self.required |= {node.name, *(r.name for r in readers(source(node), self.users) if r is not node)}
        given = {n.name for n in self.graph.nodes if n.op in (PLACEHOLDER, GET_ATTR)}
        outside = {n.name for n in self.graph.calls if not self.loopable(n)}
        flags = {n: self.loopable(n) for n in self.graph.calls}
        chosen = choose_realised(self.graph.calls, self.required, self.users, flags)
        self.reader.realised |= chosen | given | outside
        self.add_views()
        for node in self.graph.nodes:
            if node in self.templates:
                self.operand_views[node] = self.views_for(node)

    def require_output(self, node: Node) -> None:
        """An output that reshapes a value of its own takes that value's buffer; else it is computed, as where XLA,
        which makes the value, cannot tell the sizes."""
        root = self.root(node)
        taken = {self.views.get(o.name, o.name) for o in self.graph.output if o is not node} | {
            o.name for o in self.graph.output
        }
        unknown = self.outside.get(root) and sum(not d.is_Integer for d in shape_of(node)) > 1
        if root is node or root.op in (PLACEHOLDER, GET_ATTR) or root.name in taken or unknown:
            self.required.add(node.name)
        else:
            self.required.add(root.name)
            self.views[node.name] = root.name

    def add_views(self) -> None:
        """Every reshape of a realised node reads that node's buffer."""
        for node in self.graph.calls:
            if op_name(node) == "reshape" and self.loopable(node) and node.name not in self.required:
                below = node_at(node)
                if below is not None and below.name in self.reader.realised:
                    self.reader.views[node.name] = self.reader.views.get(below.name, below.name)
                    self.reader.realised.add(node.name)

    def views_for(self, node: Node) -> tuple[tuple[str, Any], ...]:
        """(buffer, strides) of a template's operands; one without fitting strides is copied."""
        found = []
        rule = TEMPLATE_RULES[op_name(node)]
        for operand, dims in rule.operands(node):
            view = view_of(self.reader, operand, rule.widens)
            steps = None if view is None else fitting_strides(rule, operand, view, dims)
            if view is None or steps is None:
                operand, dims = self.copy_of(node, operand, dims)
                view = row_major(operand)
                steps = fitting_strides(rule, operand, view, dims)
            found.append((view.buffer, steps))
        return tuple(found)

    def copy_of(self, node: Node, operand: Node, dims: Any) -> tuple[Node, Any]:
        """The operand copied into the order of its groups of dimensions, and those groups now."""
        order = tuple(d for group in dims for d in group)
        aval = replace(operand.aval, shape=tuple(operand.aval.shape[d] for d in order))
        name = f"{operand.name}_for_{node.name}_{len(self.copies.get(node, ()))}"
        copy = Node(CALL_FUNCTION, name, OPS["transpose"], (operand,), {"permutation": order}, aval)
        self.copies.setdefault(node, []).append(copy)
        self.by_name[name] = copy
        self.shapes[name] = (shape_of(copy), dtype_of(copy))
        self.reader.realised.add(name)
        ends = [0, *itertools.accumulate(map(len, dims))]
        return copy, tuple(tuple(range(a, b)) for a, b in zip(ends, ends[1:]))

    # what they are called

    def results(self) -> set[str]:
        """The realised names that are outputs."""
        return {self.views.get(o.name, o.name) for o in self.graph.output}

    def operands_of(self, node: Node) -> tuple[str, ...]:
        """The buffers of a node's operands."""
        return tuple(self.stored(o.name) for o in nodes_in(node.args))

    def stored(self, name: str) -> str:
        """The buffer that a node's value is in."""
        name = self.reader.views.get(name, name)
        return self.storage.get(name, name)

    def results_of(self, node: Node) -> tuple[str, ...]:
        """The names of a step's results; those that nobody takes get names of their own."""
        if not isinstance(node.aval, tuple):
            return (node.name,)
        taken = {u.args[1]: u.name for u in self.users[node] if op_name(u) == "getitem"}
        for k, aval in enumerate(node.aval):
            name = taken.setdefault(k, f"{node.name}_{k}")
            self.shapes.setdefault(name, (tuple(map(sympy.sympify, aval.shape)), np.dtype(aval.dtype)))
        return tuple(self.storage.get(taken[k], taken[k]) for k in range(len(node.aval)))

    def choice_of(self, node: Node) -> Node:
        """The node that says which cell each window of a max-pooling chose."""
        name, aval = choice_name(node), replace(node.args[0].aval, dtype=INT32)
        choice = Node(CALL_FUNCTION, name, Op("window_choice", "gather", why_not), node.args, node.kwargs, aval)
        self.by_name[name] = choice
        self.shapes[name] = (shape_of(choice), INT32)
        return choice

    def fill_shapes(self) -> None:
        for node in self.graph.nodes:
            if node.op != OUTPUT and not isinstance(node.aval, tuple):
                self.shapes[node.name] = (shape_of(node), dtype_of(node))
            if is_scatter(node):
                self.shapes[f"{node.name}_start"] = self.shapes[node.name]
        for view, root in self.views.items():
            self.shapes[root] = self.shapes[view]
